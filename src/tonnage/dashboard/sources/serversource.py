"""ServerSource: the cluster of a server of this process, with the decisions that its recorder hears of."""

import time
from collections.abc import Callable, Mapping, Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.dashboard.source import ClusterSource
from tonnage.framework.decision import Decision, DecisionOutcome, QueueFigures
from tonnage.framework.plugin import Plugin
from tonnage.kube.informer import ClusterInformer
from tonnage.live.followed import FollowedCluster
from tonnage.observability.recorder import PodRecorder

MOST_DECISIONS = 20_000
"""Decisions that are kept, the latest; about pods that left they are dropped sooner or later."""


class ServerSource(ClusterSource):
    """A scheduler or an extender as it sees its cluster."""

    def __init__(
        self,
        title: str,
        informer: ClusterInformer,
        recorder: PodRecorder,
        plugins: Callable[[], Sequence[Plugin]],
        actions: Callable[[], Sequence[str]],
        figures: Callable[[], Mapping[str, Mapping[str, QueueFigures]]] = dict,
    ) -> None:
        self.title = title
        self._informer = informer
        self._followed = FollowedCluster(informer, ())
        self._plugins, self._actions, self._figures = plugins, actions, figures
        self._decisions: dict[str, Decision] = {}
        recorder.on_decision = self._heard

    def _heard(self, decision: Decision) -> None:
        self._decisions.pop(decision.task.key, None)
        self._decisions[decision.task.key] = decision
        if len(self._decisions) > MOST_DECISIONS:
            del self._decisions[next(iter(self._decisions))]

    @property
    def cluster(self) -> Cluster:
        return self._followed.cluster

    @property
    def plugins(self) -> Sequence[Plugin]:
        return self._plugins()

    @property
    def actions(self) -> Sequence[str]:
        return self._actions()

    def advance(self) -> None:
        pass

    def now(self) -> float:
        return time.time()

    @property
    def trouble(self) -> str:
        if not self._informer.synced.is_set():
            return "the first lists have not come yet"
        return self._followed.trouble if self._followed.stale_since is not None else ""

    @property
    def seen(self) -> float:
        stale = self._followed.stale_since
        return time.time() if stale is None else stale

    def decision_of(self, task: Task) -> Decision | None:
        decision = self._decisions.get(task.key)
        # A pod of the same name as an earlier one has not been decided about.
        return decision if decision is not None and decision.task.uid == task.uid else None

    def placement_of(self, key: str) -> Decision | None:
        decision = self._decisions.get(key)
        return decision if decision is not None and decision.outcome == DecisionOutcome.PLACED else None

    def figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        return self._figures()
