"""Placers: what a replay calls to place its waiting pods whenever something changed.

`CyclePlacer` runs the actions of a configuration, as the scheduler does. `ClassPlacer` gets the same result for single
pods in far less time, because it retries only what may have changed.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.cycle import run_cycle
from tonnage.framework.decision import Decision, DecisionOutcome
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.framework.sessioncache import SessionCache
from tonnage.framework.statement import successor


class Outcome(NamedTuple):
    """Pods that were placed, and pods that were evicted for them."""

    placed: Sequence[Task]
    stopped: Sequence[Task] = ()
    moved: Sequence[Task] = ()
    """Pods that were evicted too, and have another node already."""


class Placer(ABC):
    """A placer of waiting pods."""

    decisions = 0
    """The number of decisions so far."""
    on_placed: Callable[[Decision], None] = staticmethod(lambda decision: None)
    """Called with every decision that gives a pod its place."""

    @abstractmethod
    def arrive(self, task: Task) -> None:
        """Add a waiting pod."""

    @abstractmethod
    def place(self, departed: bool) -> Outcome:
        """Place waiting pods for good; `departed` says whether pods have left since the last call."""

    @abstractmethod
    def about(self, task: Task) -> Decision | None:
        """The decision about a waiting pod; nothing if there was none yet."""


@dataclass(slots=True)
class WaitingClass:
    """Waiting pods of one class: where one does not fit, none does."""

    kind: Hashable
    tasks: list[tuple[tuple[int, str, str], Task]] = field(default_factory=list)
    """A heap in pod order."""
    waits: bool = False
    """Whether the first of them was tried and did not fit."""


class ClassPlacer(Placer):
    """Tries only the first pod of each class, and waiting classes only after a departure."""

    def __init__(self, cluster: Cluster, session: Session) -> None:
        self._cluster = cluster
        self._session = session
        self._alike: dict[Hashable, WaitingClass] = {}
        self._new: list[WaitingClass] = []

    def arrive(self, task: Task) -> None:
        kind = (task.fault, self._session.class_key(task))
        alike = self._alike.get(kind)
        if alike is None:
            alike = self._alike[kind] = WaitingClass(kind)
            self._new.append(alike)
        heapq.heappush(alike.tasks, (task.order, task))

    def place(self, departed: bool) -> Outcome:
        """Place what fits, in pod order; a class is skipped after its first failure.

        Nothing is lost, because placing others only takes room away, and without a departure a pod that did not fit
        still does not fit.
        """
        session = self._session
        groups = [*self._alike.values()] if departed else self._new
        self._new = []
        placed: list[Task] = []
        heads = [(group.tasks[0][0], group) for group in groups]
        heapq.heapify(heads)
        while heads:
            group = heads[0][1]
            task = group.tasks[0][1]
            self.decisions += 1
            # Most waiting classes still do not fit after a departure; `may_fit` tells without computing reasons.
            decision = None if group.waits and not session.may_fit(task) else session.place(task)
            group.waits = decision is None or decision.node is None
            if decision is None or group.waits:
                heapq.heappop(heads)
                continue
            self.on_placed(decision)
            heapq.heappop(group.tasks)
            self._cluster.confirm(task.key)
            placed.append(task)
            if group.tasks:
                heapq.heapreplace(heads, (group.tasks[0][0], group))
            else:
                heapq.heappop(heads)
                del self._alike[group.kind]
        return Outcome(placed)

    def about(self, task: Task) -> Decision | None:
        return self._session.decide(task)


class CyclePlacer(Placer):
    """Runs a scheduling cycle over all waiting pods, in a new session unless one may stay open."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[Action]) -> None:
        self._cluster = cluster
        self._sessions = SessionCache(cluster, plugins)
        self._actions = actions
        self._last: dict[str, Decision] = {}
        """The last decision about each waiting pod."""

    def arrive(self, task: Task) -> None:
        self._last.pop(task.key, None)

    def place(self, departed: bool) -> Outcome:
        session = self._sessions.open()
        decisions = run_cycle(session, self._actions)
        self.decisions += len(decisions)
        evicted = [self._cluster.running[eviction.pod] for eviction in session.evictions]
        for task in evicted:
            self._cluster.remove_pod(task.key)
        placed: list[Task] = []
        for decision in decisions:
            key = decision.task.key
            # Pods that were pipelined behind victims are placed at once: in the simulator victims leave immediately.
            if decision.outcome == DecisionOutcome.PLACED or key in self._cluster.pipelined:
                self._cluster.confirm(key)
                self._last.pop(key, None)
                self.on_placed(decision)
                placed.append(decision.task)
            else:
                self._last[key] = decision
        moved = [task for task in evicted if self._move(task)]
        self._sessions.done(session)
        gone = {task.key for task in moved}
        return Outcome(placed, [task for task in evicted if task.key not in gone], moved)

    def _move(self, task: Task) -> bool:
        """Place an evicted pod again on the node that consolidation chose; false if there is none."""
        cluster, again = self._cluster, successor(task.key)
        holding = cluster.held(again)
        if holding is None:
            return False
        cluster.remove_pod(again)
        cluster.upsert_pod(task.pod)
        cluster.reserve_holding(cluster.waiting[task.key], holding)
        cluster.confirm(task.key)
        return True

    def about(self, task: Task) -> Decision | None:
        return self._last.get(task.key)
