"""Where time goes between a decision and what the watch shows of it, as histograms: waiting for a node, the watch.

How far the picture is behind is measured with a door's own binds: from the API server's answer to a Binding until the
watch shows that pod bound. That is all the way that news takes, by one clock.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Histogram

from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import PODS, WatchedKind
from tonnage.kube.resource import Change

BUCKETS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class TimedParts(Protocol):
    """What tells how long it takes."""

    cluster: Cluster
    informer: ClusterInformer
    handovers: HandoverQueue


class BindTimings:
    """Histograms that hang on to what goes on; everything costs some microseconds."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        def histogram(name: str, words: str, *labels: str) -> Histogram:
            return Histogram(name, words, labels, buckets=BUCKETS, registry=registry)

        self.bind_wait_seconds = histogram("tonnage_bind_wait_seconds", "Time that binds wait for their node.")
        self.take_seconds = histogram(
            "tonnage_picture_take_seconds", "Time from reading changes off a watch until the picture has them.", "kind"
        )
        self.delay_seconds = histogram(
            "tonnage_picture_delay_seconds", "Time from the answer to a Binding until the watch shows it."
        )
        self._clock = clock
        self._cluster: Cluster | None = None
        self._unseen: dict[str, float] = {}
        """Pods that are bound and that the watch has yet to show, each with the time of the answer."""

    def attach(self, parts: TimedParts) -> None:
        """Measure a running door."""
        self._cluster = parts.cluster
        parts.handovers.observer = self.bind_wait_seconds.observe
        parts.informer.observer = lambda kind, seconds: self.take_seconds.labels(kind).observe(seconds)
        parts.informer.add_listener([PODS], self._seen)

    def answered(self, pod: str) -> None:
        """The API server has said that a pod is bound."""
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
