"""Histograms of the time between a decision and the watch event that shows it: waiting for a node, and the watch.

The informer's delay is measured with the process's own binds: from the API server's answer to a Binding until the watch
shows that pod bound. That is the whole way of an event, by one clock.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

from prometheus_client import CollectorRegistry

from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import PODS, WatchedKind
from tonnage.kube.resource import Change
from tonnage.observability import instruments


class TimedParts(Protocol):
    """The parts of a running process that the histograms observe."""

    cluster: Cluster
    informer: ClusterInformer
    handovers: HandoverQueue


class BindTimings:
    """Histograms that observe binds and watch events, at some microseconds each."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self.bind_wait_seconds = instruments.histogram("tonnage_bind_wait_duration_seconds", registry)
        self.apply_seconds = instruments.histogram("tonnage_informer_apply_duration_seconds", registry)
        self.delay_seconds = instruments.histogram("tonnage_informer_delay_seconds", registry)
        self._clock = clock
        self._cluster: Cluster | None = None
        self._unseen: dict[str, float] = {}
        """Bound pods that the watch has not shown yet, each with the time of the answer."""

    def attach(self, parts: TimedParts) -> None:
        """Observe a running process."""
        self._cluster = parts.cluster
        parts.handovers.observer = self.bind_wait_seconds.observe
        series = cache(self.apply_seconds.labels)
        parts.informer.observer = lambda kind, seconds: series(kind).observe(seconds)
        parts.informer.add_listener([PODS], self._seen)

    def answered(self, pod: str) -> None:
        """The API server has answered that the pod is bound."""
        if self._cluster is None:
            return
        if pod in self._cluster.running:
            # The watch was faster than the answer.
            self.delay_seconds.observe(0.0)
        elif pod in self._cluster.reserved:
            # Else it is gone already.
            self._unseen[pod] = self._clock()

    def _seen(self, _pods: WatchedKind, changes: Sequence[Change]) -> None:
        if not self._unseen:
            return
        for change in changes:
            if change.is_gone:
                self._unseen.pop(change.key, None)
            elif change.object is not None and change.object.node is not None and change.key in self._unseen:
                self.delay_seconds.observe(self._clock() - self._unseen.pop(change.key))
