"""Departures: the fewest running pods whose end would make room for a waiting job, in an open session.

For each pod of the job that finds no place, the nearest nodes are looked at as they would be without their pods; of
those pods as many stay as the pod leaves room for, the small ones first. If the queue has had its share, the same is
done with the pods of the queue. Pods of other schedulers count as well: anybody may end.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.explain.nearmisses import NearMisses
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

_MOST_ROWS = 48
"""How many of the nearest nodes are looked at."""
_MOST_OF_QUEUE = 400
"""How many pods of a queue are looked at."""
MOST_ENDS = 64
"""More pods than this are nobody's idea of a remedy."""


class EndingPods(NamedTuple):
    """Pods that end."""

    pods: tuple[Task, ...]
    rank: tuple[int, int, float]
    """Fewer pods first, then lower priority, then what is smaller."""


class Departures:
    """The search for pods whose end would make room."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session, self._job = session, job
        self._cluster = session.cluster
        self._queue = session.cluster.queues[job.queue]

    def of_job(self, tasks: Sequence[Task]) -> list[str]:
        """The pods whose end makes room for all of these pods of the job; none if there are no such pods."""
        ends: list[str] = []
        with Statement(self._session) as statement, self._session.looking_ahead():
            for task in tasks:
                if self._decide(task) is None:
                    found = self.of_task(task)
                    if found is None or len(ends) + len(found.pods) > MOST_ENDS:
                        return []
                    for one in found.pods:
                        statement.evict(one, self._job.key, "")
                    ends += [one.key for one in found.pods]
                decision = self._decide(task)
                if decision is None:
                    return []
                statement.take(decision)
        return ends

    def alternatives(self, task: Task, most: int) -> list[list[str]]:
        """Several sets of pods on different nodes, each of which makes room for one pod; the best first."""
        with self._session.looking_ahead():
            found = sorted(self._on_nodes(task), key=lambda one: one.rank)
        return [[pod.key for pod in one.pods] for one in found[:most]]

    def of_task(self, task: Task) -> EndingPods | None:
        """The best set of pods that makes room for one pod; the session must look ahead."""
        refused = self._refused(task)
        if refused:
            return self._of_queue(task)
        return min(self._on_nodes(task), key=lambda one: one.rank, default=None)

    def _refused(self, task: Task) -> bool:
        queues = self._session.queues
        return queues.why_overused(self._queue) is not None or queues.why_not_allocatable(self._queue, task) is not None

    def _decide(self, task: Task) -> Decision | None:
        """A place for the pod; nothing if there is none, or if its queue must not have more."""
        decision = None if self._refused(task) else self._session.decide(task)
        return decision if decision is not None and decision.node is not None else None

    def _on_nodes(self, task: Task) -> list[EndingPods]:
        """For each of the nearest nodes the fewest of its pods that have to go."""
        found: list[EndingPods] = []
        states = self._cluster.states
        for row in NearMisses(self._session, task).order(_MOST_ROWS):
            on_node = [self._cluster.running[key] for key in states[row].holdings if self._may_go(key)]
            needed = self._fewest(sorted(on_node, key=self._size), partial(self._fits_on, task, row))
            if needed:
                found.append(self._ending(needed))
                if len(needed) == 1 and len(found) >= 3:
                    break
        return found

    def _fits_on(self, task: Task, row: int) -> bool:
        among = np.zeros(len(self._cluster.states), np.bool_)
        among[row] = True
        return self._session.decide(task, among).node is not None

    def _of_queue(self, task: Task) -> EndingPods | None:
        """The pods of the queue, and of the queues above it, that have to go before it may have what the pod asks."""
        family = set(self._cluster.groups.hierarchy().upwards(self._job.queue))
        hierarchy = self._cluster.groups.hierarchy()
        for related in (
            lambda queue: queue == self._job.queue,
            lambda queue: not family.isdisjoint(list(hierarchy.upwards(queue))[1:]),
        ):
            pods = [
                one
                for key, one in self._cluster.running.items()
                if self._may_go(key) and related(self._session.job_of(one).queue)
            ]
            pods.sort(key=lambda one: (-one.priority, -self._size(one)[1], one.created, one.key))
            needed = self._fewest(pods[-_MOST_OF_QUEUE:], lambda: self._decide(task) is not None)
            if needed:
                return self._ending(needed)
        return None

    def _fewest(self, pods: Sequence[Task], fits: Callable[[], bool]) -> list[Task]:
        """The pods of these, in whose order the first stay rather than the last, without which it fits."""
        for one in pods:
            self._session.evict(one)
        needed: list[Task] = []
        try:
            if not pods or not fits():
                return []
            for one in pods:
                self._session.restore(one)
                if not fits():
                    self._session.evict(one)
                    needed.append(one)
        finally:
            for one in pods:
                self._session.restore(one)
        return needed

    def _may_go(self, key: str) -> bool:
        return key in self._cluster.running and key not in self._cluster.leaving

    def _size(self, task: Task) -> tuple[int, float, str]:
        """The size of a pod on cards; pods of high priority stay rather than others of that size."""
        held = self._cluster.held(task.key)
        cards = sum(use.memory for vendor in held.vendors for use in vendor.cards) if held is not None else 0
        return -task.priority, cards + dict(task.requests).get("cpu", 0) / 1e6, task.key

    def _ending(self, pods: Sequence[Task]) -> EndingPods:
        sizes = sum(self._size(one)[1] for one in pods)
        return EndingPods(tuple(pods), (len(pods), max(one.priority for one in pods), sizes))
