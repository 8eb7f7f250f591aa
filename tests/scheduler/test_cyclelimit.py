"""Very many waiting pods: the turns of queues are those of all pods, however few a cycle looks at."""

from typing import Any

import pytest

from tests.config.texts import VOLCANO_HELM, load
from tests.groups import add, queue
from tests.scenario import node, pod, scenario
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.model.annotations import QUEUE
from tonnage.scheduler.cyclelimit import CycleLimit
from tonnage.scheduler.cyclerunner import CycleRunner

CAPACITY = VOLCANO_HELM.replace("proportion", "capacity")


def world(cpus: int, urgent: str = "", **pods: int) -> Cluster:
    """Queues by name with so many waiting pods of one CPU, all those of a queue older than those of the next."""
    cluster = scenario(node("n", cpu=str(cpus), memory="1Ti", pods="999"))
    for place, (name, count) in enumerate(pods.items()):
        add(cluster, queue(name, created=f"2026-01-0{place + 1}T00:00:00Z", priority=5 if name == urgent else 1))
        for number in range(count):
            made: dict[str, Any] = {"annotations": {QUEUE: name}, "created": f"2026-02-0{place + 1}T00:00:00Z"}
            cluster.upsert_pod(pod(f"{name}-{number:03}", cpu="1", **made))
    return cluster


def placed(cluster: Cluster, portion: int, config: str = VOLCANO_HELM, first: int | None = None) -> dict[str, int]:
    """How many pods of each queue get places, cycle by cycle, until one gives none."""
    waiting: set[str] = set()
    limit = CycleLimit(waiting, portion, queue_of=cluster.groups.queue_of, first=first)
    runner = CycleRunner(cluster, load(config).plugins, make_actions(["allocate", "backfill"]))
    counts: dict[str, int] = {}
    while True:
        done = runner.run(limit.next(cluster.waiting), 0.0, limit.cut_queues)
        waiting |= {decision.task.key for decision in done.waiting}
        for decision in done.placed:
            counts[decision.job.queue] = counts.get(decision.job.queue, 0) + 1
            cluster.confirm(decision.task.key)
        if not done.placed and not limit.is_partial:
            return counts


@pytest.mark.parametrize("portion", [4, 10, 1000])
def test_queues_get_their_shares_whatever_a_cycle_looks_at(portion):
    """The oldest 30 pods are all of the first queue, so that one portion by age would have had nobody else's."""
    assert placed(world(12, a=30, b=10, c=10), portion) == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("portion", [4, 10, 1000])
def test_the_queue_that_is_served_first_is_also_if_others_have_the_oldest_and_the_youngest_pods(portion):
    assert placed(world(6, "b", a=30, b=6, c=30), portion, CAPACITY) == {"b": 6}


def test_the_turns_end_where_a_queue_has_more_and_may_be_next():
    cluster = world(12, a=30, b=30)
    limit = CycleLimit(frozenset(), 8, queue_of=cluster.groups.queue_of)
    runner = CycleRunner(cluster, load(VOLCANO_HELM).plugins, make_actions(["allocate"]))
    done = runner.run(limit.next(cluster.waiting), 0.0, limit.cut_queues)
    queues = [decision.job.queue for decision in done.placed]
    assert abs(queues.count("a") - queues.count("b")) <= 1
    assert set(limit.cut_queues) == {"a", "b"}
    assert not done.waiting, "who had no turn is not told anything"


def test_a_queue_whose_pods_fit_nowhere_does_not_end_the_turns_of_others():
    cluster = world(4, b=10)
    add(cluster, queue("a", created="2025-01-01T00:00:00Z", priority=5))
    for number in range(40):
        cluster.upsert_pod(pod(f"large-{number:02}", cpu="9", annotations={QUEUE: "a"}, created="2025-02-01T00:00:00Z"))
    assert placed(cluster, 8, CAPACITY) == {"b": 4}


def test_the_first_cycle_decides_about_the_first_pods_only_and_the_next_about_all_others():
    cluster = world(300, a=200)
    limit = CycleLimit(frozenset(), 1000, first=64)
    runner = CycleRunner(cluster, load(VOLCANO_HELM).plugins, make_actions(["allocate"]))
    first = runner.run(limit.next(cluster.waiting), 0.0, limit.cut_queues)
    assert limit.is_partial
    assert {one.task.key for one in first.placed} == {f"default/a-{number:03}" for number in range(64)}
    limit.adapt(0.001)
    rest = runner.run(limit.next(cluster.waiting), 0.0, limit.cut_queues)
    assert not limit.is_partial
    assert len(rest.placed) == 136


@pytest.mark.parametrize("first", [4, 10, 64, None])
def test_queues_get_their_shares_whatever_the_first_cycle_looks_at(first):
    assert placed(world(12, a=30, b=10, c=10), 1000, first=first) == {"a": 4, "b": 4, "c": 4}
