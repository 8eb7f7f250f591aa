"""The order of moves: every step fits when it is made, and circles are broken through free room or reported."""

from tests.plan.defrag.planning import FREE_GPUS, NOW, kept
from tests.scenario import node, scenario, session
from tonnage.cluster.cluster import Cluster
from tonnage.plan.defrag.limits import Limits
from tonnage.plan.defrag.prices import Prices
from tonnage.plan.defrag.problem import PlanProblem, PodMove, Solution
from tonnage.plan.defrag.proof import Proof, Proven


def proven(cluster: Cluster, *wanted: tuple[str, str]) -> tuple[Proven, list[tuple[str, str, str, bool]]]:
    """What becomes of moves of pods to nodes, and the steps in their order."""
    cluster.now = NOW
    with session(cluster, gpu_policy="binpack") as opened:
        problem = PlanProblem(opened, FREE_GPUS, Limits(), Prices(), NOW)
        numbers = {pod.task.name: number for number, pod in enumerate(problem.pods)}
        moves = [PodMove(numbers[name], cluster.nodes[to].row) for name, to in wanted]
        found = Proof(problem, lambda: 0.0).run(Solution(tuple(moves)), lambda: None)
        names = [pod.task.name for pod in problem.pods]
    assert not cluster.leaving
    assert not cluster.reserved
    return found, [(names[step.pod], step.node, step.to, step.is_detour) for step in found.moves]


def test_a_move_waits_for_the_one_that_makes_room_for_it() -> None:
    cluster = scenario(
        *[node(name, gpus=1) for name in "abc"], kept("x", on="a", memory=8000), kept("y", on="b", memory=8000)
    )
    found, steps = proven(cluster, ("x", "b"), ("y", "c"))
    assert steps == [("y", "b", "c", False), ("x", "a", "b", False)]
    assert found.refused == ()


def test_pods_leave_a_node_before_another_takes_the_wrong_card_of_it() -> None:
    cluster = scenario(
        node("a", gpus=1),
        node("b", gpus=2),
        node("c", gpus=1),
        kept("x", on="a", memory=6000),
        kept("y", on="b", gpu=0, memory=4000),
        kept("z", on="b", gpu=0, memory=2000),
    )
    found, steps = proven(cluster, ("x", "b"), ("y", "c"))
    assert [name for name, *_ in steps] == ["y", "x"]
    assert found.moves[1].to_devices == ("b/0",)


def test_two_pods_change_places_through_free_room() -> None:
    cluster = scenario(
        *[node(name, gpus=1) for name in "abc"], kept("x", on="a", memory=8000), kept("y", on="b", memory=8000)
    )
    found, steps = proven(cluster, ("x", "b"), ("y", "a"))
    assert steps == [("x", "a", "c", True), ("y", "b", "a", False), ("x", "c", "b", False)]
    assert found.refused == ()


def test_a_circle_without_free_room_is_reported_and_nothing_of_it_is_done() -> None:
    cluster = scenario(
        *[node(name, gpus=1) for name in "ab"], kept("x", on="a", memory=8000), kept("y", on="b", memory=8000)
    )
    found, steps = proven(cluster, ("x", "b"), ("y", "a"))
    assert steps == []
    assert len(found.refused) == 2
    assert all("CardInsufficientMemory" in one.why for one in found.refused)


def test_a_pod_that_would_come_back_to_its_own_cards_is_not_moved() -> None:
    cluster = scenario(node("a", gpus=1), kept("x", on="a", memory=4000))
    found, steps = proven(cluster, ("x", "a"))
    assert steps == []
    assert "the same cards of a again" in found.refused[0].why
