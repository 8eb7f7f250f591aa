"""ViewedSource: a live cluster or files, as commands that only look see them, with what would be decided there."""

import time
from collections.abc import Callable, Mapping, Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.dashboard.source import ClusterSource
from tonnage.framework.decision import Decision, QueueFigures
from tonnage.framework.plugin import Plugin
from tonnage.live.cycle import CycleDecisions, dry_cycle
from tonnage.live.followed import FollowedCluster
from tonnage.live.view import ClusterView

REST = 9.0
"""How many times as long as a cycle took the next one waits."""


class ViewedSource(ClusterSource):
    """A cluster that somebody else schedules."""

    def __init__(self, view: ClusterView, title: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self.title = title or view.place
        self.policy = view.decided_by
        self.can_change = isinstance(view.live, FollowedCluster)
        self.reads_nodes = not isinstance(view.live, FollowedCluster) or view.live.is_whole
        self._view = view
        self._clock = clock
        self._cycle = CycleDecisions({}, {}, {})
        self._changes = -1
        self._next = 0.0

    @property
    def cluster(self) -> Cluster:
        return self._view.cluster

    @property
    def plugins(self) -> Sequence[Plugin]:
        return self._view.plugins

    @property
    def actions(self) -> Sequence[str]:
        return self._view.actions

    def advance(self) -> None:
        live = self._view.live
        started = self._clock()
        if live.changes == self._changes or started < self._next:
            return
        self._changes = live.changes
        if self.reads_nodes:
            # Without nodes nothing could be decided but that there are none.
            self._cycle = dry_cycle(self._view)
        self._next = self._clock() + REST * (self._clock() - started)

    def now(self) -> float:
        return self._view.now()

    @property
    def trouble(self) -> str:
        live = self._view.live
        if isinstance(live, FollowedCluster) and live.stale_since is not None:
            return live.trouble
        return f"nothing is decided: {self._cycle.fault}" if self._cycle.fault else ""

    @property
    def seen(self) -> float:
        stale = self._view.live.stale_since
        return self.now() if stale is None else stale

    def decision_of(self, task: Task) -> Decision | None:
        return self._cycle.waiting.get(task.key) or self._cycle.placed.get(task.key)

    def figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        return self._cycle.queues
