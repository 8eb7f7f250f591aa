"""Several cards that must fit together: one NUMA node, the best links, the modules and networks of Ascend."""

import json
from itertools import permutations

from tests.scenario import Container, ResourceRequirements, cards, decide, gpu, node, pod, reasons, running, scenario

NUMA_BIND = {"nvidia.com/numa-bind": "true"}
SCORES = "hami.io/node-nvidia-score"


def linked(name, letters, pairs, other=1):
    """A node whose cards are called by letters, with the scores of some pairs; all others score `other`."""
    scores = {a: {} for a in letters}
    for a, b in permutations(letters, 2):
        scores[a][b] = pairs.get(a + b, pairs.get(b + a, other))
    text = json.dumps([{"uuid": a, "score": scores[a]} for a in letters])
    return node(name, gpus=[gpu(a, index=i) for i, a in enumerate(letters)], annotations={SCORES: text})


def npus(name, chip, networks=None, cards=4):
    """A node with Ascend cards `<node>/0` and so on."""
    registered = [
        {
            "id": f"{name}/{i}",
            "index": i,
            "count": 1,
            "devmem": 65536,
            "devcore": 100,
            "type": chip,
            "health": True,
            "custominfo": {"NetworkID": networks[i]} if networks else {},
        }
        for i in range(cards)
    ]
    return node(name, annotations={f"hami.io/node-register-{chip}": json.dumps(registered)})


def npu_pod(name, chip, count, *, on=None, uuid=""):
    text = f"{uuid},{chip},65536,0:;"
    notes = {f"hami.io/{chip}-devices-allocated": text} if on else None
    limits = ResourceRequirements(limits={f"huawei.com/{chip}": count})
    return pod(name, containers=[Container("main", limits)], on=on, annotations=notes)


def test_a_pod_that_binds_to_one_numa_node_gets_all_cards_from_one():
    cluster = scenario(
        node("a", gpus=4, numas=[0, 1, 1, 0]), running("x", on="a", gpu=3, memory=8000), running("y", on="a", gpu=1)
    )
    assert cards(decide(cluster, pod("p", 2, memory=100))) == ["a/2", "a/0"]
    assert cards(decide(cluster, pod("p", 2, memory=100, annotations=NUMA_BIND))) == ["a/2", "a/1"]
    decision = decide(cluster, pod("p", 3, memory=100, annotations=NUMA_BIND))
    assert reasons(decision) == {"NumaNotFit": 1}


def test_numa_binding_prefers_the_numa_node_that_the_policy_prefers():
    cluster = scenario(node("a", gpus=4, numas=[0, 0, 1, 1]))
    wanted = pod("p", 2, memory=100, annotations=NUMA_BIND)
    assert cards(decide(cluster, wanted, gpu_policy="spread")) == ["a/3", "a/2"]
    assert cards(decide(cluster, wanted, gpu_policy="binpack")) == ["a/1", "a/0"]


def test_cards_on_different_numa_nodes_do_not_make_a_node_fit():
    cluster = scenario(node("a", gpus=2, numas=[0, 1]), node("b", gpus=2, numas=[1, 1]), running("x", on="a"))
    decision = decide(cluster, pod("p", 2, memory=100, annotations=NUMA_BIND))
    assert decision.node == "b"
    assert reasons(decision) == {"NumaNotFit": 1}


def test_topology_aware_takes_the_best_linked_set():
    cluster = scenario(linked("n", "abcdef", {"af": 100, "cf": 100}))
    assert cards(decide(cluster, pod("p", 3, memory=100), gpu_policy="topology-aware")) == ["f", "c", "a"]


def test_topology_aware_gives_one_card_that_the_others_miss_least():
    cluster = scenario(linked("n", "abcdef", dict.fromkeys(["af", "bf", "cf", "df", "ef"], 1), other=100))
    assert cards(decide(cluster, pod("p", 1, memory=100), gpu_policy="topology-aware")) == ["f"]
    cluster = scenario(linked("n", "abcdef", dict.fromkeys(["ab", "ac", "ad", "ae", "af"], 1), other=100))
    assert cards(decide(cluster, pod("p", 1, memory=100), gpu_policy="topology-aware")) == ["a"]


def test_topology_aware_looks_at_fitting_cards_only():
    cluster = scenario(
        linked("n", "abcdef", {"af": 100, "cf": 100, "de": 90}), running("x", on="n", gpu="f", memory=8000)
    )
    assert cards(decide(cluster, pod("p", 2, memory=100), gpu_policy="topology-aware")) == ["e", "d"]


def test_topology_aware_without_links_takes_the_first_of_spread():
    cluster = scenario(node("n", gpus=3), running("x", on="n", gpu=2, memory=100))
    assert cards(decide(cluster, pod("p", 2, memory=100), gpu_policy="topology-aware")) == ["n/1", "n/0"]


def test_all_cards_are_taken_whatever_their_links():
    cluster = scenario(linked("n", "abc", {"ab": 100}))
    assert cards(decide(cluster, pod("p", 3, memory=100), gpu_policy="topology-aware")) == ["c", "b", "a"]
    assert reasons(decide(cluster, pod("p", 4, memory=100), gpu_policy="topology-aware")) == {
        "NodeInsufficientDevice": 1
    }


def test_links_that_cannot_be_read_hide_no_card():
    cluster = scenario(node("n", gpus=2, annotations={SCORES: "[{"}))
    assert cards(decide(cluster, pod("p", 2, memory=100), gpu_policy="topology-aware")) == ["n/1", "n/0"]
    assert [problem.field for problem in cluster.problems()] == [f"metadata.annotations[{SCORES}]"]


def test_ascend_910c_comes_by_the_module():
    cluster = scenario(npus("n", "Ascend910C"), npu_pod("x", "Ascend910C", 1, on="n", uuid="n/3"))
    assert cards(decide(cluster, npu_pod("p", "Ascend910C", 2))) == ["n/1", "n/0"]
    cluster.upsert_pod(npu_pod("y", "Ascend910C", 1, on="n", uuid="n/0"))
    assert reasons(decide(cluster, npu_pod("p", "Ascend910C", 2))) == {"CardSetInfeasible": 1}
    assert reasons(decide(scenario(npus("n", "Ascend910C")), npu_pod("p", "Ascend910C", 3))) == {"CardSetInfeasible": 1}


def test_no_gpu_policy_breaks_up_a_module():
    cluster = scenario(npus("n", "Ascend910C"), npu_pod("x", "Ascend910C", 1, on="n", uuid="n/3"))
    for policy in ("topology-aware", "binpack", "mutex", "numa,binpack"):
        assert sorted(cards(decide(cluster, npu_pod("p", "Ascend910C", 2), gpu_policy=policy))) == ["n/0", "n/1"]


def test_ascend_910_fills_from_the_network_with_the_most_cards():
    cluster = scenario(npus("n", "Ascend910B3", networks=[1, 2, 1, 1, 2], cards=5))
    assert cards(decide(cluster, npu_pod("p", "Ascend910B3", 2))) == ["n/3", "n/2"]
    assert cards(decide(cluster, npu_pod("p", "Ascend910B3", 4))) == ["n/3", "n/2", "n/0", "n/4"]
