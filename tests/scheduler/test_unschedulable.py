"""Pods that found no place are passed over until something changes in their favour."""

from tests.groups import add, group, members
from tests.scenario import node, pod, scenario
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.cyclerunner import CycleOutcome, CycleRunner
from tonnage.scheduler.unschedulable import UnschedulablePods


class World:
    """A cluster on which cycles run as the scheduler runs them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.time = 0.0
        self.unschedulable = UnschedulablePods(lambda: self.time)
        self.cycle_runner = CycleRunner(cluster, default_plugins(), make_actions())

    def cycle(self) -> CycleOutcome:
        found = self.cycle_runner.run(self.unschedulable, 0.0)
        self.unschedulable.add(found.waiting)
        return found


def names(decisions: object) -> list[str]:
    return [decision.task.name for decision in decisions]  # type: ignore[attr-defined]


def test_an_impossible_pod_is_decided_once() -> None:
    world = World(scenario(node("a", cpu="1"), pod("large", cpu="2"), pod("small", cpu="1")))
    first = world.cycle()
    assert names(first.placed) == ["small"]
    assert names(first.waiting) == ["large"]
    second = world.cycle()
    assert (second.placed, second.waiting, second.waits) == ([], [], {})
    world.unschedulable.retry_all()
    assert names(world.cycle().waiting) == ["large"]


def test_a_new_member_lets_the_whole_gang_be_looked_at() -> None:
    cluster = scenario(node("a", cpu="4"), *members("g", 2, cpu=1), pod("alone", cpu="9"))
    add(cluster, group("g", 3))
    world = World(cluster)
    assert len(world.cycle().waiting) == 3
    cluster.upsert_pod(members("g", 3, cpu=1)[2])
    world.unschedulable.retry_job("default/g")
    found = world.cycle()
    assert sorted(names(found.placed)) == ["g-0", "g-1", "g-2"]
    assert not found.waiting


def test_a_pod_whose_bind_failed_pauses_longer_each_time() -> None:
    world = World(scenario(node("a", cpu="1"), pod("p", cpu="1")))
    for expected in (1.0, 2.0, 4.0):
        (decision,) = world.cycle().placed
        world.cycle_runner.release(decision.task.key)
        assert world.unschedulable.back_off([decision.task.key]) == expected
        assert not world.cycle().placed
        world.unschedulable.retry_all()
        assert not world.cycle().placed, "room for others is no reason to try again at once"
        assert not world.unschedulable.end_backoffs()
        world.time += expected
        assert world.unschedulable.end_backoffs()


def test_a_place_that_others_must_leave_first_is_not_kept_beyond_the_cycle() -> None:
    cluster = scenario(
        node("a", cpu="1"), pod("old", cpu="1", on="a", terminating=True), pod("p", cpu="1"), pod("q", cpu="1")
    )
    world = World(cluster)
    found = world.cycle()
    assert [decision.why_not() for decision in found.waiting if decision.node] == ["goes to a once default/old left"]
    assert not cluster.reserved
    assert not cluster.pipelined
    cluster.remove_pod("default/old")
    world.unschedulable.retry_all()
    assert names(world.cycle().placed) == ["p"]
