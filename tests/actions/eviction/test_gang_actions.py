"""gangpreempt and gangreclaim: gangs go whole although gang protects them from preempt and reclaim."""

import pytest

from tests.actions.eviction.making_room import asks, evicted, promised, teams, volcano
from tests.groups import group
from tests.scenario import node as bare
from tonnage.cluster.cluster import Cluster

PLUGINS = ("conformance", "gang", "priority", "proportion", "predicates")


def world(queue: str, minimum: int = 2, **more: object) -> Cluster:
    """Two nodes of two CPUs with a gang of two pods on one and one of lower priority on both; a gang of two waits."""
    running = [asks(f"low-{n}", "low", 1, on=f"n{n}") for n in range(2)]
    running += [asks(f"mid-{n}", "mid", 1, on=f"n{n}") for n in range(2)]
    groups = {
        "low": {"queue": "q", "priorityClassName": "low", "minimum": minimum},
        "mid": {"queue": "q", "priorityClassName": "middle", "minimum": 2},
        "high": {"queue": queue, "priorityClassName": "high", "minimum": 2},
    }
    waiting = [asks(f"high-{n}", "high", 1) for n in range(2)]
    return teams(bare("n0", cpu="2"), bare("n1", cpu="2"), *running, *waiting, groups=groups, q={}, r={})


@pytest.mark.parametrize(("action", "queue"), [("preempt", "q"), ("reclaim", "r")])
def test_gang_protects_gangs_from_the_plain_actions(action, queue):
    assert evicted(volcano(world(queue), action, *PLUGINS)) == []


@pytest.mark.parametrize(("action", "queue"), [("gangpreempt", "q"), ("gangreclaim", "r")])
def test_a_gang_goes_whole_and_the_least_important_first(action, queue):
    outcome = volcano(world(queue), action, *PLUGINS)
    assert evicted(outcome) == ["low-0", "low-1"]
    assert len(promised(outcome)) == 2
    assert {eviction.action for eviction in outcome.session.evictions} == {action}


def test_surplus_goes_before_gangs():
    cluster = world("q", minimum=0)
    cluster.remove_pod("default/high-1")
    cluster.groups.upsert(group("high", 1, queue="q", priorityClassName="high"))
    assert len(evicted(volcano(cluster, "gangpreempt", *PLUGINS))) == 1
