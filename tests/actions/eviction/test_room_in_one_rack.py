"""Room that is made for a gang is made in one rack."""

from tests.groups import add, cycle, group, member, members, priority_class
from tests.scenario import node, pod, scenario
from tonnage.plugins.jobs.conformance import Conformance

RACK = "topology/rack"
REQUIRED, PREFERRED = "tonnage.io/topology-required", "tonnage.io/topology-preferred"
RACKS = {"n1": "r1", "n2": "r1", "n3": "r2"}
ACTIONS = ("allocate", "preempt")


def hosts():
    return [node(name, cpu="4", labels={RACK: rack}) for name, rack in RACKS.items()]


def preempting(*things, **said: str):
    """A gang of two pods that take a node each, beside pods that are less important; n1 is free."""
    low = [
        pod("old", cpu=4, on="n2", created="2026-01-01T00:00:00Z"),
        pod("young", cpu=4, on="n3", created="2026-01-02T00:00:00Z"),
    ]
    cluster = scenario(*hosts(), *low, *things, *members("g", 2, cpu=4, priority=1000))
    add(cluster, group("g", 2, annotations=said, priorityClassName="high"), priority_class("high", 1000))
    return cycle(cluster, Conformance(), actions=ACTIONS)


def test_without_a_topology_the_youngest_goes():
    done = preempting()
    assert [eviction.pod for eviction in done.document.evictions] == ["default/young"]


def test_those_go_who_are_in_the_way_in_one_rack():
    done = preempting(**{REQUIRED: RACK})
    assert [eviction.pod for eviction in done.document.evictions] == ["default/old"]
    assert {done.decisions[f"g-{i}"].node for i in range(2)} == {"n1", "n2"}


def test_a_preference_is_met_if_that_is_possible():
    assert [eviction.pod for eviction in preempting(**{PREFERRED: RACK}).document.evictions] == ["default/old"]


def test_nobody_goes_for_a_gang_that_no_rack_can_hold():
    cluster = scenario(*hosts(), pod("low", cpu=4, on="n2"), *members("g", 3, cpu=4, priority=1000))
    given = group("g", 3, annotations={REQUIRED: RACK}, priorityClassName="high")
    done = cycle(add(cluster, given, priority_class("high", 1000)), Conformance(), actions=ACTIONS)
    assert done.document.evictions == []
    assert done.placed == {}


def test_nobody_goes_for_a_gang_whose_topology_means_nothing():
    done = preempting(**{REQUIRED: "no/label"})
    assert done.document.evictions == []


def test_pods_of_a_gang_in_a_rack_are_not_moved_out_of_it():
    def moved(**said):
        there = [member("h-0", "h", cpu=2, on="n1"), member("h-1", "h", cpu=1, on="n2")]
        there += [pod("x", cpu=3, on="n2", priority=100), pod("y", cpu=2, on="n3", priority=100)]
        cluster = scenario(*hosts(), *there, pod("p", cpu=4))
        done = cycle(add(cluster, group("h", 1, annotations=said)), actions=("allocate", "consolidation"))
        return [eviction.pod for eviction in done.document.evictions]

    assert moved() == ["default/h-0"]
    assert moved(**{REQUIRED: RACK}) == []


def test_a_gang_without_a_topology_is_tried_although_one_with_it_was_not_possible():
    low = [pod(f"low-{name}", cpu=4, on=name) for name in RACKS]
    pods = [*members("a", 3, cpu=4, priority=1000), *members("b", 3, cpu=4, priority=1000)]
    given = [
        group("a", 3, annotations={REQUIRED: RACK}, priorityClassName="high", created="2026-01-01T00:00:00Z"),
        group("b", 3, priorityClassName="high", created="2026-01-02T00:00:00Z"),
    ]
    cluster = add(scenario(*hosts(), *low, *pods), *given, priority_class("high", 1000))
    done = cycle(cluster, Conformance(), actions=ACTIONS)
    assert len(done.document.evictions) == 3
