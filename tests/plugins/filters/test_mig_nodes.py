"""MIG nodes: a node whose GPUs are cut into instances takes what its strategy serves."""

import pytest

from tests.actions.eviction.making_room import SLICE
from tests.scenario import part, place, plain, pod, reasons, scenario
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod, ResourceRequirements


def mig_node(strategy: str, enabled: str = "true") -> Node:
    node = plain("n", 2, gpu_memory=100)
    assert node.metadata.labels is not None
    assert node.status.allocatable is not None
    node.metadata.labels.update({"node-role.kubernetes.io/mig-enabled": enabled, "nvidia.com/mig.strategy": strategy})
    node.status.allocatable[SLICE] = 2
    return node


def asking(resource: str) -> Pod:
    return pod("p", containers=[Container("main", ResourceRequirements(limits={resource: 1}))])


@pytest.mark.parametrize(
    ("strategy", "whole", "a_part", "instance"),
    [("single", True, False, False), ("mixed", False, False, True), ("none", True, True, True)],
)
def test_a_mig_node_takes_what_its_strategy_serves(strategy, whole, a_part, instance):
    for wanted, fits in ((pod("p", 1), whole), (part("p", 0.5), a_part), (asking(SLICE), instance)):
        decision = place(scenario(mig_node(strategy)), wanted)
        assert (decision.node == "n") == fits
        assert fits or reasons(decision) == {"MigStrategyMismatch": 1}


def test_pods_without_cards_and_nodes_that_are_not_marked_are_not_concerned():
    assert place(scenario(mig_node("mixed")), asking("cpu")).node == "n"
    assert place(scenario(mig_node("single", enabled="false")), part("p", 0.5)).node == "n"
