"""Which nodes have the cards that all containers of a pod ask for."""

from tests.scenario import container, decide, node, pod, scenario


def test_a_request_between_two_that_are_the_same_is_looked_at_too():
    same, other = {"gpus": 1, "memory": 1000}, {"cambricon.com/vmlu": 1}
    wants = [
        container("a", **same),
        container("b", **other),
        container("c", **same),
        container("d", gpus=1, memory=10**6),
    ]
    said = decide(scenario(node("n", gpus=4)), pod("p", containers=wants))
    assert [(rejected.reason, rejected.count) for rejected in said.rejected] == [("NodeUnregistered", 1)]
