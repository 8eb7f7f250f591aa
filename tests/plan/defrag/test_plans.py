"""Plans for defragmentation: which pods are moved, at which price, and which never are."""

import msgspec
import pytest

from tests.plan.defrag.planning import FREE_GPUS, FREE_NODES, NOW, START, USABLE, kept, moves, plan
from tests.scenario import node, pod, running, scenario, usage
from tonnage.cluster.cluster import Cluster
from tonnage.model.annotations import CHECKPOINTED, SAFE_TO_EVICT
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import BudgetSpec, BudgetStatus, PodDisruptionBudget
from tonnage.model.selection import LabelSelector
from tonnage.model.storage import EmptyDirSource, HostPathSource, PodVolume
from tonnage.model.timestamp import rfc3339
from tonnage.plan.defrag.goals import Goal, GoalKind
from tonnage.plan.defrag.planner import PlanError
from tonnage.plan.defrag.prices import Prices, PriorityWeight


def halves(*pods: object) -> Cluster:
    """Two nodes of one card of which half is taken each, by pods of which the first is the cheaper one."""
    return scenario(node("a", gpus=1), node("b", gpus=1), *pods)  # type: ignore[arg-type]


def test_two_half_cards_become_a_whole_one_by_moving_the_pod_that_loses_less() -> None:
    cluster = halves(kept("young", on="a", memory=4000, hours=1), kept("old", on="b", memory=4000, hours=9))
    found = plan(cluster, FREE_GPUS)
    assert moves(found) == [("young", "a", "b")]
    assert (found.before.gpus_whole, found.after.gpus_whole, found.gain) == (0, 1, 1.0)
    assert found.gap == 0.0
    start_up = 2 / 60
    assert found.gpu_hours_lost == pytest.approx(0.5 * (1 + start_up))
    assert found.moves[0].to_devices == ["b/0"]


def test_the_cluster_is_afterwards_as_before() -> None:
    cluster = halves(kept("young", on="a", memory=4000), kept("old", on="b", memory=4000, hours=9))
    before = [usage(cluster, name) for name in "ab"], set(cluster.running), dict(cluster.holders)
    plan(cluster, FREE_GPUS)
    assert ([usage(cluster, name) for name in "ab"], set(cluster.running), dict(cluster.holders)) == before
    assert not cluster.leaving
    assert not cluster.reserved
    assert not cluster.waiting


def test_a_move_that_costs_more_than_it_gains_is_not_made() -> None:
    cluster = halves(kept("old", on="a", memory=4000, hours=100), kept("older", on="b", memory=4000, hours=200))
    assert plan(cluster, FREE_GPUS).moves == []
    found = plan(cluster, FREE_GPUS, prices=Prices(horizon="240h"))
    assert moves(found) == [("old", "a", "b")]


def test_work_before_the_last_checkpoint_is_not_lost() -> None:
    saved = {CHECKPOINTED: rfc3339(NOW - 600)}
    cluster = halves(
        kept("young", on="a", memory=4000, hours=2), kept("saved", on="b", memory=4000, hours=90, annotations=saved)
    )
    assert moves(plan(cluster, FREE_GPUS)) == [("saved", "b", "a")]


def test_a_checkpoint_in_the_future_or_of_nonsense_counts_for_nothing() -> None:
    for said in (rfc3339(NOW + 600), "yesterday", "9" * 100):
        cluster = halves(
            kept("young", on="a", memory=4000, hours=2),
            kept("liar", on="b", memory=4000, hours=9, annotations={CHECKPOINTED: said}),
        )
        assert moves(plan(cluster, FREE_GPUS)) == [("young", "a", "b")]


def test_lost_work_of_important_pods_counts_more() -> None:
    cluster = halves(
        kept("important", on="a", memory=4000, hours=1, priority=50), kept("other", on="b", memory=4000, hours=3)
    )
    assert moves(plan(cluster, FREE_GPUS)) == [("important", "a", "b")]
    prices = Prices(priorities=[PriorityWeight(priority=10, weight=5.0)])
    assert moves(plan(cluster, FREE_GPUS, prices=prices)) == [("other", "b", "a")]


@pytest.mark.parametrize(
    ("why", "stuck"),
    [
        ("NobodyControlsIt", {"owner": ""}),
        ("BoundToItsNode", {"owner": "DaemonSet"}),
        ("BoundToItsNode", {"owner": "Node"}),
        ("NotPreemptible", {"priority": 100}),
        ("NotSafeToEvict", {"annotations": {SAFE_TO_EVICT: "false"}}),
        ("LocalVolume", {"volumes": [PodVolume("data", hostPath=HostPathSource())]}),
        ("LocalVolume", {"volumes": [PodVolume("scratch", emptyDir=EmptyDirSource())]}),
        ("MinimumRuntime", {"hours": 0.1}),
    ],
)
def test_pods_that_must_not_move_stay_and_the_plan_says_why(why: str, stuck: dict[str, object]) -> None:
    cluster = halves(kept("stuck", on="a", memory=4000, **stuck), kept("free", on="b", memory=4000, hours=9))
    found = plan(cluster, FREE_GPUS, minimum_runtime=1800.0)
    assert found.staying == {why: 1}
    assert moves(found) == [("free", "b", "a")]


def test_memory_as_a_volume_and_what_is_said_to_be_safe_may_move() -> None:
    memory = [PodVolume("shm", emptyDir=EmptyDirSource("Memory"))]
    local = [PodVolume("data", hostPath=HostPathSource())]
    for more in ({"volumes": memory}, {"volumes": local, "annotations": {SAFE_TO_EVICT: "true"}}):
        cluster = halves(kept("mobile", on="a", memory=4000, **more), kept("old", on="b", memory=4000, hours=9))
        assert moves(plan(cluster, FREE_GPUS)) == [("mobile", "a", "b")]


def test_a_budget_that_allows_one_eviction_lets_one_pod_of_three_nodes_go() -> None:
    cluster = scenario(
        *[node(name, gpus=1) for name in "abcd"],
        *[kept(f"x-{name}", on=name, memory=2000, labels={"app": "x"}) for name in "abcd"],
    )
    assert len(plan(cluster, FREE_GPUS).moves) == 3
    cluster.budgets["default/x"] = PodDisruptionBudget(
        ObjectMeta("x", "default"),
        BudgetSpec(selector=LabelSelector(matchLabels={"app": "x"})),
        BudgetStatus(disruptionsAllowed=1),
    )
    found = plan(cluster, FREE_GPUS)
    assert len(found.moves) == 1
    assert found.limits_reached == ["PodDisruptionBudget default/x: 1 of 1"]


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ({"pods": 2}, 2),
        ({"gpu_hours": 0.6}, 2),
        ({"pods_per_namespace": 1}, 1),
        ({"gpu_hours_per_namespace": 0.3}, 1),
        ({"pods_per_queue": 2}, 2),
        ({"gpu_hours_per_queue": 0.3}, 1),
        ({"pods": 0}, 0),
    ],
)
def test_limits_are_kept(limit: dict[str, float], most: int) -> None:
    cluster = scenario(
        *[node(name, gpus=1) for name in "abcd"], *[kept(f"x-{name}", on=name, memory=2000) for name in "abcd"]
    )
    found = plan(cluster, FREE_GPUS, **limit)
    assert len(found.moves) == most
    assert found.limits_reached


def test_a_target_is_reached_and_not_exceeded() -> None:
    cluster = scenario(
        *[node(name, gpus=1) for name in "abcd"],
        *[kept(f"x-{name}", on=name, memory=2000, hours=1 + at) for at, name in enumerate("abcd")],
    )
    found = plan(cluster, Goal(GoalKind.FREE_GPUS, 2.0))
    assert found.gain == 2.0
    assert sorted(pod for pod, _, _ in moves(found)) == ["x-a", "x-b"]
    assert found.gap == pytest.approx(0.0, abs=1e-6)


def test_a_node_is_emptied_with_all_its_pods_but_not_those_of_daemon_sets() -> None:
    cluster = scenario(
        node("a", gpus=2),
        node("b", gpus=4),
        kept("one", on="a", gpu=0, memory=8000),
        kept("two", on="a", gpu=1, memory=8000),
        kept("agent", on="a", gpu=0, owner="DaemonSet"),
        kept("other", on="b", gpu=0, memory=8000, hours=50),
    )
    found = plan(cluster, FREE_NODES)
    assert sorted(moves(found)) == [("one", "a", "b"), ("two", "a", "b")]
    assert (found.before.nodes_free, found.after.nodes_free) == (0, 1)


def test_a_job_that_waits_starts_after_the_cheapest_moves() -> None:
    cluster = scenario(
        node("a", gpus=2),
        node("b", gpus=2),
        kept("cheap", on="a", gpu=0, memory=8000, hours=1),
        kept("dear", on="b", gpu=0, memory=8000, hours=20),
        pod("wide", gpus=2),
    )
    found = plan(cluster, START)
    assert moves(found) == [("cheap", "a", "b")]
    assert [(start.job, start.pods) for start in found.starts] == [("default/wide", {"default/wide": "a"})]
    assert found.gain == 2.0


def test_a_job_that_nobody_knows_or_that_needs_no_plan_is_told_apart() -> None:
    cluster = scenario(node("a", gpus=2), pod("fits", gpus=1))
    with pytest.raises(PlanError, match="cannot plan to start default/other: no waiting job has that name"):
        plan(cluster, Goal(GoalKind.START, jobs=("default/other",)))
    with pytest.raises(PlanError, match="the next scheduling cycle places it"):
        plan(cluster, Goal(GoalKind.START, jobs=("default/fits",)))


def test_when_time_has_run_out_the_answer_is_the_best_so_far_and_says_so() -> None:
    cluster = halves(kept("young", on="a", memory=4000), kept("old", on="b", memory=4000, hours=9))
    found = plan(cluster, FREE_GPUS, seconds=0.0)
    assert found.moves == []
    assert any("time ran out" in note for note in found.notes)
    assert found.bound is not None
    assert found.bound > 0


def test_a_configuration_that_spreads_pods_over_cards_is_taken_as_it_is() -> None:
    """Two cards of one node are half full each; a policy that spreads would put the moved pod back on an empty card."""
    cluster = scenario(
        node("a", gpus=2), kept("x", on="a", gpu=0, memory=4000), kept("y", on="a", gpu=1, memory=4000, hours=9)
    )
    assert [move.to_devices for move in plan(cluster, FREE_GPUS).moves] == [["a/1"]]
    assert plan(cluster, FREE_GPUS, gpu_policy="spread").moves == []


def test_what_typical_pods_can_use_grows() -> None:
    cluster = scenario(
        *[node(name, gpus=2) for name in "ab"],
        kept("x", on="a", gpu=0, memory=4000),
        kept("y", on="b", gpu=0, memory=4000, hours=9),
        kept("full", on="b", gpu=1, memory=8000, hours=9),
        *[pod(f"typical-{number}", gpus=2, cpu="100") for number in range(8)],
    )
    found = plan(cluster, USABLE)
    assert found.after.gpus_usable >= found.before.gpus_usable
    assert found.gain == pytest.approx(found.after.gpus_usable - found.before.gpus_usable)


def test_a_gang_that_cannot_run_without_a_pod_loses_the_work_of_all() -> None:
    gang = {"tonnage.io/min-members": "2"}
    owner = "Job"
    members = [
        kept("g-0", on="a", memory=4000, owner=owner, annotations=gang),
        kept("g-1", on="c", memory=8000, owner=owner, annotations=gang, hours=5),
    ]
    members = [
        msgspec.structs.replace(
            one,
            metadata=msgspec.structs.replace(
                one.metadata,
                ownerReferences=[msgspec.structs.replace(one.metadata.ownerReferences[0], name="g")],  # type: ignore[index]
            ),
        )
        for one in members
    ]
    cluster = scenario(
        node("a", gpus=1), node("b", gpus=1), node("c", gpus=1), *members, kept("old", on="b", memory=4000, hours=9)
    )
    found = plan(cluster, FREE_GPUS)
    assert moves(found) == [("old", "b", "a")]
    start_up = 2 / 60
    assert found.gpu_hours_lost == pytest.approx(0.5 * (9 + start_up))


def test_running_pods_of_plain_scenarios_never_move() -> None:
    cluster = halves(running("x", on="a", memory=4000), running("y", on="b", memory=4000))
    found = plan(cluster, FREE_GPUS)
    assert found.moves == []
    assert found.staying == {"NobodyControlsIt": 2}


def test_decisions_are_the_engines() -> None:
    """A node that the configuration refuses is no destination, whatever room it has."""
    cluster = scenario(
        node("a", gpus=1),
        node("b", gpus=1, unschedulable=True),
        node("c", gpus=1),
        kept("x", on="a", memory=4000),
        kept("y", on="b", memory=4000),
        kept("z", on="c", memory=4000, hours=9),
    )
    found = plan(cluster, FREE_GPUS)
    assert moves(found) == [("x", "a", "c")]


@pytest.mark.parametrize("goal", [FREE_GPUS, FREE_NODES, USABLE, START], ids=lambda goal: goal.kind)
def test_clusters_with_nothing_to_move_have_an_empty_plan(goal: Goal) -> None:
    for cluster in (scenario(), scenario(node("a")), scenario(node("a", gpus=1)), scenario(pod("waits", gpus=1))):
        found = plan(cluster, goal)
        assert (found.moves, found.starts, found.gain) == ([], [], 0.0)
