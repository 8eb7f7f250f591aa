"""HAMi's node and GPU policies: the cases of its own tests, and the ones its users stumble over."""

import pytest

from tests.scenario import cards, gpu, node, place, pod, running, scenario, usage


def two_nodes():
    """Node 1 is a little used on its first card, node 2 heavily on its second."""
    return scenario(
        node("node1", gpus=[gpu("device1", index=0), gpu("device2", index=1)]),
        node("node2", gpus=[gpu("device3", index=0), gpu("device4", index=1)]),
        running("pod1", on="node1", gpu="device1", memory=2000, cores=25),
        running("pod2", on="node2", gpu="device4", memory=6000, cores=75),
    )


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


def test_of_equal_cards_the_last_registered_is_taken_first():
    cluster = scenario(node("a", gpus=2))
    assert cards(place(cluster, pod("p", 1, memory=1000, cores=30))) == ["a/1"]


def test_several_cards_come_in_the_order_of_preference():
    cluster = scenario(node("a", gpus=2))
    assert cards(place(cluster, pod("p", 2, memory=1000, cores=30))) == ["a/1", "a/0"]


def test_containers_of_a_pod_see_what_the_earlier_ones_took():
    from tests.scenario import container

    cluster = scenario(node("a", gpus=2))
    both = pod("p", containers=[container("big", gpus=1, memory=8000), container("small", gpus=1, memory=1000)])
    decision = place(cluster, both)
    assert [(d.container, d.uuid) for d in decision.devices] == [("big", "a/1"), ("small", "a/0")]
    assert usage(cluster, "a") == [(1, 1000, 0), (1, 8000, 0)]
