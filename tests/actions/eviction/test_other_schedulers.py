"""Pods of other schedulers hold what they hold: no action stops or moves them."""

from typing import Any

import pytest

from tests.actions.eviction.making_room import asks, crowd, evicted, job, kai, moved, node, promised, teams, volcano
from tests.groups import add, cycle, group, members
from tests.kai_cases import NOW
from tests.plugins.queues.teams import team
from tests.scenario import node as bare
from tests.scenario import scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import STALE_SINCE
from tonnage.model.timestamp import rfc3339

PLUGINS = ("conformance", "gang", "priority", "proportion", "predicates")
OURS, OTHERS = "volcano", "default-scheduler"


def of_ours(cluster: Cluster) -> Cluster:
    """A cluster in which only pods of one scheduler are placed."""
    cluster.is_ours = lambda pod: pod.scheduler == OURS
    return cluster


def test_preempt_stops_only_our_own_pods() -> None:
    pods = [asks("theirs", "low", 1, on="n", scheduler=OTHERS), asks("ours", "low", 1, on="n", scheduler=OURS)]
    low, high = ({"queue": "q", "priorityClassName": name, "minimum": 0} for name in ("low", "high"))
    groups = {"low": low, "high": high}
    cluster = teams(bare("n", cpu="2"), *pods, asks("p", "high", 1, scheduler=OURS), groups=groups, q={})
    outcome = volcano(of_ours(cluster), "preempt", *PLUGINS)
    assert (evicted(outcome), promised(outcome)) == (["ours"], {"p": "n"})


def test_preempt_makes_no_room_where_only_others_run() -> None:
    low, high = ({"queue": "q", "priorityClassName": name, "minimum": 0} for name in ("low", "high"))
    running = asks("theirs", "low", 2, on="n", scheduler=OTHERS)
    waiting = asks("p", "high", 1, scheduler=OURS)
    cluster = teams(bare("n", cpu="2"), running, waiting, groups={"low": low, "high": high}, q={})
    outcome = volcano(of_ours(cluster), "preempt", *PLUGINS)
    assert evicted(outcome) == []
    why = outcome.session.waits["default/high"]["preempt"]
    assert why.message == "needs 1 × 1 cpu; no node could hold one even if all went that may be stopped"


def by(scheduler: str) -> dict[str, Any]:
    return {"each": [{"scheduler": scheduler}]}


@pytest.mark.parametrize(("scheduler", "gone"), [(OURS, ["old-0"]), (OTHERS, [])])
def test_reclaim_takes_back_only_from_our_own_pods(scheduler: str, gone: list[str]) -> None:
    running = job("old", "a", 2, on="n", **by(scheduler))
    waiting = job("new", "b", 2, **by(OURS))
    cluster = crowd(node("n", 2), team("a", 0), team("b", 2), running, waiting)
    assert evicted(kai(of_ours(cluster), "reclaim")) == gone


@pytest.mark.parametrize(("scheduler", "to"), [(OURS, {"small-0": "n1"}), (OTHERS, {})])
def test_consolidation_moves_only_our_own_pods(scheduler: str, to: dict[str, str]) -> None:
    running = [job("small", "q", 1, on="n0", **by(scheduler)), job("other", "q", 1, on="n1", **by(OTHERS))]
    cluster = crowd(node("n0", 2), node("n1", 2), team("q", 4), *running, job("large", "q", 2, **by(OURS)))
    assert moved(kai(of_ours(cluster), "consolidation")) == to


@pytest.mark.parametrize(("scheduler", "left"), [(OURS, 2), (OTHERS, 0)])
def test_only_our_own_gangs_are_stale(scheduler: str, left: int) -> None:
    cluster = scenario(bare("a", cpu="4"), *members("train", 2, cpu="1", on="a", scheduler=scheduler))
    cluster.now = NOW
    add(of_ours(cluster), group("train", 3, annotations={STALE_SINCE: rfc3339(NOW - 61)}))
    outcome = cycle(cluster, actions=("allocate", "stalegangeviction"))
    assert (len(outcome.session.evictions), len(outcome.session.stale)) == (left, left // 2)


def test_a_gang_that_others_help_to_run_keeps_the_pods_that_it_needs() -> None:
    """Without its own two pods the other scheduler's third would run in vain."""
    running = [asks(f"r{n}", "low", 1, on="n", scheduler=OTHERS if n == 2 else OURS) for n in range(3)]
    groups = {
        "low": {"queue": "q", "priorityClassName": "low", "minimum": 3},
        "high": {"queue": "q", "priorityClassName": "high"},
    }
    cluster = teams(bare("n", cpu="3"), *running, asks("p", "high", 1, scheduler=OURS), groups=groups, q={})
    assert evicted(volcano(of_ours(cluster), "preempt", "conformance", "priority", "proportion", "predicates")) == []
