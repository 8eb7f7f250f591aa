"""HAMi's node and GPU policies: the cases of its own tests, and the ones its users stumble over."""

import pytest

from tests.scenario import cards, container, decide, gpu, node, place, pod, running, scenario, usage

A100 = "NVIDIA A100-SXM4-40GB"
V100 = "NVIDIA-Tesla V100-PCIE-32GB"


def two_nodes():
    """Node 1 is a little used on its first card, node 2 heavily on its second."""
    return scenario(
        node("node1", gpus=[gpu("device1", index=0), gpu("device2", index=1)]),
        node("node2", gpus=[gpu("device3", index=0), gpu("device4", index=1)]),
        running("pod1", on="node1", gpu="device1", memory=2000, cores=25),
        running("pod2", on="node2", gpu="device4", memory=6000, cores=75),
    )


def half_used(name, card):
    """Five pods that together hold half of a card of 10 slots, 8000 MiB and 100 % of compute."""
    return [running(f"{card}-{i}", on=name, gpu=card, memory=800, cores=10) for i in range(5)]


def score(decision, name="node1"):
    return decision.scores[name]["total"]


@pytest.mark.parametrize(
    ("node_policy", "gpu_policy", "where", "card"),
    [
        ("binpack", "binpack", "node2", "device4"),
        ("binpack", "spread", "node2", "device3"),
        ("spread", "binpack", "node1", "device1"),
        ("spread", "spread", "node1", "device2"),
    ],
)
def test_node_and_gpu_policy_two_by_two(node_policy, gpu_policy, where, card):
    decision = place(two_nodes(), pod("p", 1, memory=1000, cores=20), node_policy=node_policy, gpu_policy=gpu_policy)
    assert decision.node == where
    assert cards(decision) == [card]


def test_the_scores_are_hamis_and_those_of_spread_are_negative():
    request = pod("p", 1, memory=1000, cores=20)
    packed = place(two_nodes(), request, node_policy="binpack").scores
    assert packed == {"node2": {"total": 8.0, "nodepolicy": 8.0}, "node1": {"total": 3.0, "nodepolicy": 3.0}}
    spread = place(two_nodes(), request, node_policy="spread").scores
    assert {name: parts["total"] for name, parts in spread.items()} == {"node1": -3.0, "node2": -8.0}


def test_a_pods_annotations_overrule_the_defaults():
    wish = {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "binpack"}
    decision = place(two_nodes(), pod("p", 1, memory=1000, cores=20, annotations=wish))
    assert cards(decision) == ["device1"]


@pytest.mark.parametrize("unknown", ["", "best", "Spread"])
def test_an_unknown_node_policy_in_an_annotation_means_binpack(unknown):
    wish = {"hami.io/node-scheduler-policy": unknown}
    decision = decide(two_nodes(), pod("p", 1, memory=1000, annotations=wish), node_policy="spread")
    assert decision.node == "node2"


@pytest.mark.parametrize("unknown", ["", "best", ","])
def test_an_unknown_gpu_policy_in_an_annotation_means_spread(unknown):
    wish = {"hami.io/gpu-scheduler-policy": unknown}
    decision = decide(two_nodes(), pod("p", 1, memory=1000, annotations=wish), gpu_policy="binpack")
    assert cards(decision) == ["device3"]


@pytest.mark.parametrize("model", ["NVIDIA", A100, V100])
def test_of_equal_cards_the_last_registered_is_taken_first(model):
    cluster = scenario(node("node1", gpus=[gpu("uuid1", type=model), gpu("uuid2", index=1, type=model)]))
    decision = place(cluster, pod("p", 1, memory=1000, cores=30))
    assert cards(decision) == ["uuid2"]
    assert score(decision) == 0


@pytest.mark.parametrize("model", ["NVIDIA", A100, V100])
def test_spread_takes_the_idle_card_beside_a_half_used_one(model):
    cluster = scenario(
        node("node1", gpus=[gpu("uuid1", type=model), gpu("uuid2", index=1, type=model)]), *half_used("node1", "uuid2")
    )
    decision = place(cluster, pod("p", 1, memory=1000, cores=30))
    assert cards(decision) == ["uuid1"]
    assert score(decision) == 7.5


def test_one_half_used_card_scores_fifteen():
    cluster = scenario(node("node1", gpus=[gpu("uuid1")]), *half_used("node1", "uuid1"))
    assert score(decide(cluster, pod("p", 1, memory=1000, cores=30))) == 15


def test_several_cards_come_in_the_order_of_preference():
    cluster = scenario(node("node1", gpus=[gpu("uuid1"), gpu("uuid2", index=1)]))
    assert cards(decide(cluster, pod("p", 2, memory=1000, cores=30))) == ["uuid2", "uuid1"]
    for one in (*half_used("node1", "uuid1"), *half_used("node1", "uuid2")):
        cluster.upsert_pod(one)
    decision = decide(cluster, pod("p", 2, memory=1000, cores=30))
    assert cards(decision) == ["uuid2", "uuid1"]
    assert score(decision) == 15


def test_of_two_nodes_the_half_used_one_is_packed_further():
    cluster = scenario(
        node("node1", gpus=[gpu("uuid1")]), node("node2", gpus=[gpu("uuid2")]), *half_used("node2", "uuid2")
    )
    decision = decide(cluster, pod("p", 1, memory=1000, cores=30))
    assert {name: parts["total"] for name, parts in decision.scores.items()} == {"node2": 15.0, "node1": 0.0}
    assert cards(decision) == ["uuid2"]


@pytest.mark.parametrize(
    ("names", "holder"),
    [(["gpu", "none"], 0), (["none", "gpu"], 1), (["none", "gpu", "none"], 1)],
)
def test_devices_stay_with_the_container_that_asked(names, holder):
    cluster = scenario(node("node1", gpus=1))
    asks = {"gpu": container("gpu", gpus=1, memory=1000), "none": container("none", cpu=1)}
    decision = place(cluster, pod("p", containers=[asks[name] for name in names]))
    assert [device.container for device in decision.devices] == ["gpu"]
    ((_, uses),) = decision.grant
    assert [len(container_uses) for container_uses in uses] == [int(i == holder) for i in range(len(names))]


def test_containers_of_a_pod_see_what_the_earlier_ones_took():
    cluster = scenario(node("a", gpus=2))
    both = pod("p", containers=[container("big", gpus=1, memory=8000), container("small", gpus=1, memory=1000)])
    decision = place(cluster, both)
    assert [(d.container, d.uuid) for d in decision.devices] == [("big", "a/1"), ("small", "a/0")]
    assert usage(cluster, "a") == [(1, 1000, 0), (1, 8000, 0)]


def test_usage_is_summed_per_card():
    cluster = scenario(
        node("a", gpus=2),
        running("x", on="a", gpu=0, memory=100, cores=10),
        running("y", on="a", gpu=0, memory=100, cores=10),
    )
    assert usage(cluster, "a") == [(2, 200, 20), (0, 0, 0)]


def test_the_node_score_sums_over_cards_of_different_sizes():
    small = gpu("u1", count=100, memory=200, cores=100)
    large = gpu("u2", index=1, count=150, memory=400, cores=200)
    cluster = scenario(
        node("node1", gpus=[small, large], pods=500),
        *[running(f"a{i}", on="node1", gpu="u1", memory=4, cores=2) for i in range(50)],
        *[running(f"b{i}", on="node1", gpu="u2") for i in range(74)],
        running("rest", on="node1", gpu="u2", memory=250, cores=125),
    )
    assert score(decide(cluster, pod("p", 1, memory=1))) == 10 * (125 / 250 + 225 / 300 + 450 / 600)


def test_equal_nodes_are_taken_by_name():
    cluster = scenario(node("b", gpus=1), node("a10", gpus=1), node("a2", gpus=1))
    first = [place(cluster, pod(f"p{i}", 1, memory=8000), node_policy="spread").node for i in range(3)]
    assert first == ["a10", "a2", "b"]


def test_a_pod_without_cards_is_not_drawn_to_used_cards():
    cluster = two_nodes()
    decision = decide(cluster, pod("p", cpu=1))
    assert decision.node == "node1"
    assert decision.scores["node2"] == {"total": 0.0, "nodepolicy": 0.0}
