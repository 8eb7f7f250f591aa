"""A pod that waits is told why, what is nearest, and what would help."""

import pytest

from tests.explain.asking import ask, sentences
from tests.scenario import gpu, node, pod, running, scenario
from tonnage.explain.names import UnknownNameError
from tonnage.model.meta import OwnerReference
from tonnage.model.selection import Taint


def test_the_funnel_counts_the_nodes_that_each_rule_leaves():
    cluster = scenario(
        node("cpu-1"),
        node("tainted", gpus=1, taints=[Taint("gpu", "NoSchedule", "yes")]),
        node("full", gpus=1),
        running("x", on="full", memory=6000),
        pod("p", 1, memory=4000),
    )
    found = ask(cluster, "p")
    assert found.sentence == "waits: 0 of 3 nodes fit: 1 CardInsufficientMemory, 1 NodeUnregistered, 1 UntoleratedTaint"
    assert [(step.reason, step.nodes, step.left, step.example) for step in found.funnel] == [
        ("UntoleratedTaint", 1, 2, "tainted"),
        ("NodeUnregistered", 1, 1, "cpu-1"),
        ("CardInsufficientMemory", 1, 0, "full"),
    ]
    assert found.message.startswith("0 of 3 nodes fit: 1 CardInsufficientMemory (full: ")


def test_the_nearest_node_is_the_one_that_lacks_least_and_its_holders_are_named():
    cluster = scenario(
        node("a", gpus=1),
        node("b", gpus=2),
        running("x", on="a", memory=7000),
        running("y", on="b", gpu=0, memory=5000),
        running("z", on="b", gpu=0, memory=1000),
        running("w", on="b", gpu=1, memory=7500),
        pod("p", 1, memory=4000),
    )
    nearest = ask(cluster, "p").misses[0]
    assert nearest.sentence == "b lacks 2,000 MiB on its best card; 2 pods hold it"
    assert [(one.pod, one.holds) for one in nearest.holders] == [("default/y", "5,000 MiB"), ("default/z", "1,000 MiB")]
    (short,) = nearest.shortages
    assert (short.wanted, short.free, short.short, short.card) == ("4,000 MiB", "2,000 MiB", "2,000 MiB", "b/0")


def test_several_cards_say_how_many_of_them_fit():
    cluster = scenario(node("a", gpus=3), running("x", on="a", gpu=0, memory=7000), pod("p", 3, memory=4000))
    assert ask(cluster, "p").misses[0].sentence == (
        "a lacks 3,000 MiB on its best card (2 of 3 cards fit); 1 pod holds it"
    )


def test_the_largest_request_that_fits_is_found_for_each_amount():
    cluster = scenario(
        node("a", gpus=2, cpu="8"), running("x", on="a", gpu=0, memory=6000), pod("p", 2, memory=4000, cpu="2")
    )
    found = ask(cluster, "p")
    assert sentences(found, "request") == [
        "it fits with less memory on each card: nvidia.com/gpumem: 2,000 instead of 4,000 in the pod",
        "it fits with fewer cards: nvidia.com/gpu: 1 instead of 2 in the pod",
    ]
    (memory, _) = (one for one in found.suggestions if one.kind == "request")
    assert memory.patch == {
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpumem": "2000"}}}]}
    }
    assert memory.commands[0].startswith("kubectl -n default get pod p -o json | kubectl patch -f - --local -p '{")


def test_a_request_is_cut_down_in_two_amounts_if_one_is_not_enough():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=5000, cores=60), pod("p", 1, cores=100))
    assert sentences(ask(cluster, "p"), "request") == [
        "it fits with a smaller request: nvidia.com/gpumem: 3,000 instead of 8,000 and "
        "nvidia.com/gpucores: 40 instead of 100 in the pod"
    ]


def test_the_fewest_pods_that_have_to_end_are_named():
    cluster = scenario(
        node("a", gpus=1),
        running("small", on="a", memory=1000),
        running("other", on="a", memory=1000),
        running("large", on="a", memory=5000),
        pod("p", 1, memory=6000),
    )
    found = ask(cluster, "p")
    (end,) = (one for one in found.suggestions if one.kind == "end")
    assert end.sentence == "it fits once 1 pod on a ended: default/large"
    assert end.commands == ["kubectl -n default delete pod large"]
    assert end.places == "a"


def test_a_pod_that_ends_is_no_help_if_others_would_take_its_place():
    cluster = scenario(
        node("a", gpus=1),
        running("x", on="a", memory=8000),
        pod("first", 1, memory=8000, created="2026-01-01T00:00:00Z"),
        pod("second", 1, memory=8000, created="2026-01-02T00:00:00Z"),
    )
    assert sentences(ask(cluster, "first"), "end") == ["it fits once 1 pod on a ended: default/x"]
    second = ask(cluster, "second")
    assert (second.ahead, sentences(second, "end")) == (1, [])
    assert sentences(second, "node") == ["it fits with 2 more nodes like a (1 × NVIDIA A100-SXM4-40GB)"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"annotations": {"nvidia.com/use-gputype": "H100"}}, "without the annotation nvidia.com/use-gputype: H100"),
        ({"selector": {"zone": "b"}}, "without the node selector zone: b"),
    ],
)
def test_a_constraint_that_keeps_the_pod_off_is_named(change, told):
    cluster = scenario(node("a", gpus=1, labels={"zone": "a"}), pod("p", 1, memory=1000, **change))
    assert sentences(ask(cluster, "p"), "constraint") == [f"it fits {told}"]


def test_a_taint_is_named_with_the_toleration():
    cluster = scenario(node("a", gpus=1, taints=[Taint("gpu", "NoSchedule", "yes")]), pod("p", 1, memory=1000))
    (one,) = ask(cluster, "p").suggestions
    assert one.sentence == "it fits with a toleration of the taint gpu=yes, if it may run there"
    assert one.patch == {
        "spec": {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]}
    }


def test_a_node_more_helps_if_an_empty_one_would_hold_the_pod():
    cluster = scenario(node("a", gpus=2), running("x", on="a", gpu=[0, 1], memory=8000), pod("p", 2, memory=8000))
    (one,) = (one for one in ask(cluster, "p").suggestions if one.kind == "node")
    assert (one.sentence, one.places) == ("it fits with 1 more node like a (2 × NVIDIA A100-SXM4-40GB)", "a-copy-1")


def test_what_no_node_could_hold_is_called_impossible():
    cluster = scenario(node("a", gpus=4), node("b", gpus=[gpu("b/0", memory=16000)]), pod("p", 8, memory=80000))
    found = ask(cluster, "p")
    assert found.impossible == (
        "no node of this cluster could hold default/p as it is, even an empty one: it asks for 8 nvidia.com/gpu "
        "(80000 MiB on each); the most cards on a node are 4 (a); the largest card has 16,000 MiB (b)"
    )
    assert sentences(found, "node") == []


def test_a_selector_that_no_node_matches_is_called_so_and_not_a_matter_of_size():
    found = ask(scenario(node("a", gpus=1, labels={"zone": "a"}), pod("p", 1, memory=100, selector={"zone": "b"})), "p")
    assert found.impossible == (
        "no node of this cluster could hold default/p as it is, even an empty one: NodeAffinityMismatch (nodes like a)"
    )


def test_tolerations_keep_what_else_they_say():
    from tonnage.model.selection import Toleration

    known = [Toleration("old", "Exists", None, "NoExecute", 300)]
    cluster = scenario(node("a", gpus=1, taints=[Taint("gpu", "NoSchedule")]), pod("p", 1, tolerations=known))
    (one,) = ask(cluster, "p").suggestions
    assert one.patch["spec"]["tolerations"][0]["tolerationSeconds"] == 300


def test_the_object_to_change_is_the_owner_of_the_pod():
    from msgspec.structs import replace

    waiting = pod("web-5d4-x", 1, memory=9000, labels={"pod-template-hash": "5d4"})
    owners = [OwnerReference(name="web-5d4", controller=True, kind="ReplicaSet")]
    waiting = replace(waiting, metadata=replace(waiting.metadata, ownerReferences=owners))
    (one,) = ask(scenario(node("a", gpus=1), waiting), "web-5d4-x").suggestions
    assert one.sentence.endswith("in the template of Deployment web")
    assert one.commands == [
        "kubectl -n default patch deployment web -p "
        '\'{"spec":{"template":{"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpumem":"8000"}}}]}}}}\''
    ]


def test_a_pod_that_fits_is_told_where_it_goes_and_what_that_costs():
    cluster = scenario(
        node("a", gpus=1), node("b", gpus=1), running("x", on="b", memory=1000), pod("p", 1, memory=2000)
    )
    found = ask(cluster, "p")
    assert found.sentence == "fits now: the next cycle places it on b"
    assert list(found.scores) == ["b", "a"]
    assert found.fragmentation is not None


def test_a_running_pod_is_told_its_scores_beside_the_others():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), running("x", on="b", memory=1000))
    found = ask(cluster, "x")
    assert found.sentence == "runs on b; today a would score higher; it holds b/0 (1,000 MiB)"
    assert set(found.scores) == {"a", "b"}
    assert found.fragmentation is not None
    assert cluster.status("default/x").name == "RUNNING"


def test_an_invalid_request_is_told_without_suggestions_that_cannot_help():
    found = ask(scenario(node("a", gpus=1), pod("p", 1, memory="8Gi")), "p")
    assert "InvalidRequest" in found.sentence
    assert not [one for one in found.suggestions if one.kind in ("end", "node")]


def test_an_unknown_name_gets_the_nearest():
    cluster = scenario(node("gpu-1", gpus=1), pod("train-0", 1), pod("other-7", 1, namespace="other"))
    told = {
        ("trian-0", "pod"): "there is no pod trian-0 in namespace default; did you mean default/train-0?",
        ("other-7", "pod"): "there is no pod other-7 in namespace default; did you mean other/other-7?",
        ("gpu-11", "node"): "there is no node gpu-11; did you mean gpu-1?",
        ("gpu-1/9", "gpu"): "there is no gpu gpu-1/9; did you mean gpu-1/0?",
        ("defualt", "queue"): "there is no queue defualt; did you mean default?",
        ("\x1b[2Jzz", "pod"): "there is no pod \\x1b[2Jzz in namespace default",
    }
    for (name, kind), message in told.items():
        with pytest.raises(UnknownNameError) as error:
            ask(cluster, name, kind)
        assert str(error.value) == message
