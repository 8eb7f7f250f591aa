"""Where waiting pods are given places: what a replay turns to whenever something changed.

`Cycles` runs the actions of a configuration, as a scheduler does. `Alikes` comes to the same result for pods that stand
alone, in far less time, by not trying again what cannot have changed.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.decision import PLACED, Decision
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.scheduler.cycle import run_cycle
from tonnage.scheduler.sessions import Sessions


@dataclass(slots=True)
class Fate:
    """What was last decided about a waiting pod, or about all that are like it."""

    decision: Decision | None = None


class Outcome(NamedTuple):
    """Pods that got a place, and pods that were stopped for them."""

    placed: Sequence[Task]
    stopped: Sequence[Task] = ()


class Desk(ABC):
    """Gives waiting pods their places."""

    decisions = 0
    """How many were made."""

    @abstractmethod
    def arrive(self, task: Task) -> Fate:
        """A pod waits from now on."""

    @abstractmethod
    def place(self, departed: bool) -> Outcome:
        """Give places, which pods hold from here on; `departed` says whether any have left since the last time."""


@dataclass(slots=True)
class Alike(Fate):
    """Waiting pods that no plugin can tell apart: where one does not fit, none does."""

    tasks: list[tuple[tuple[int, str, str], Task]] = field(default_factory=list)
    """A heap in the pods' order."""


class Alikes(Desk):
    """Tries the first of each kind of pods only, and those only after something left."""

    def __init__(self, cluster: Cluster, session: Session) -> None:
        self._cluster = cluster
        self._session = session
        self._alike: dict[Hashable, Alike] = {}
        self._new: list[Alike] = []

    def arrive(self, task: Task) -> Fate:
        kind = self._likeness(task)
        alike = self._alike.get(kind)
        if alike is None:
            alike = self._alike[kind] = Alike()
            self._new.append(alike)
        heapq.heappush(alike.tasks, (task.order, task))
        return alike

    def place(self, departed: bool) -> Outcome:
        """Place what fits, in the pods' order; a kind is left alone after its first failure.

        That loses nothing, because placing others only takes room away; and without a departure whatever did not fit
        before does not fit now.
        """
        groups = [*self._alike.values()] if departed else self._new
        self._new = []
        placed: list[Task] = []
        heads = [(group.tasks[0][0], group) for group in groups]
        heapq.heapify(heads)
        while heads:
            group = heads[0][1]
            task = group.tasks[0][1]
            group.decision = self._session.place(task)
            self.decisions += 1
            if group.decision.node is None:
                heapq.heappop(heads)
                continue
            heapq.heappop(group.tasks)
            self._cluster.confirm(task.key)
            placed.append(task)
            if group.tasks:
                heapq.heapreplace(heads, (group.tasks[0][0], group))
            else:
                heapq.heappop(heads)
                del self._alike[self._likeness(task)]
        return Outcome(placed)

    def _likeness(self, task: Task) -> Hashable:
        """What tells pods apart."""
        return task.fault, self._session.class_key(task)


class Cycles(Desk):
    """Runs a scheduling cycle over all waiting pods, in a session of its own unless one may stay open."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[Action]) -> None:
        self._cluster = cluster
        self._sessions = Sessions(cluster, plugins)
        self._actions = actions
        self._fates: dict[str, Fate] = {}

    def arrive(self, task: Task) -> Fate:
        fate = self._fates[task.key] = Fate()
        return fate

    def place(self, departed: bool) -> Outcome:
        session = self._sessions.open()
        decisions = run_cycle(session, self._actions)
        self.decisions += len(decisions)
        stopped = [self._cluster.running[eviction.pod] for eviction in session.evictions]
        for task in stopped:
            self._cluster.remove_pod(task.key)
        placed: list[Task] = []
        for decision in decisions:
            key = decision.task.key
            # Who waits for pods that are stopped need not wait any longer: here they are gone at once.
            if decision.outcome == PLACED or key in self._cluster.promised:
                self._cluster.confirm(key)
                self._fates.pop(key, None)
                placed.append(decision.task)
            elif key in self._fates:
                self._fates[key].decision = decision
        # What is held for pods that will come in the place of stopped ones: these come now, and find it.
        for key in [*self._cluster.reserved]:
            self._cluster.remove_pod(key)
        self._sessions.done(session)
        return Outcome(placed, stopped)
