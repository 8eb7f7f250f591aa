"""Metrics about an extender's work that is under way or went wrong, read from those who do it when somebody asks."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.extender import handshake
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.reservations import Reservations
from tonnage.framework.session import Session
from tonnage.kube.informer import ClusterInformer
from tonnage.observability.workmetrics import (
    bind_metrics,
    counts,
    gauge,
    gauges,
    picture_metrics,
    plugin_metrics,
    zeros,
)

HANDSHAKES = (handshake.ASKED, handshake.WRITTEN_OFF, handshake.NOT_WRITTEN)


class WorkParts(Protocol):
    """Those who do the work."""

    cluster: Cluster
    informer: ClusterInformer
    reservations: Reservations
    handovers: HandoverQueue
    binder: Binder
    handshakes: Handshakes
    session: Session


class ExtenderWork(Collector):
    """What can be read at any time."""

    def __init__(self, parts: WorkParts, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._clock = clock
        """The one that places are kept by."""

    def collect(self) -> Iterator[Metric]:
        parts, binder = self._parts, self._parts.binder
        yield from self._places()
        yield from bind_metrics(parts.handovers, binder.in_flight, binder.conflicts, binder.locks)
        words = "Labels to write and outcomes to find out behind binds that were answered."
        yield gauge("tonnage_bind_writes_queued", words, binder.behind)
        yield from picture_metrics(parts.cluster, parts.informer, self._clock())
        words = "Words written into handshakes with device plugins."
        yield counts("tonnage_handshakes", words, "outcome", zeros(HANDSHAKES) | parts.handshakes.outcomes)
        yield from plugin_metrics(parts.reservations.plugins, parts.session.failures)

    def _places(self) -> Iterator[Metric]:
        reservations = self._parts.reservations
        kept = {state.value: count for state, count in reservations.count().items()}
        yield gauges("tonnage_reservations", "Places kept for pods, by how far they have come.", "state", kept)
        ages = {state.value: age for state, age in reservations.oldest(self._clock()).items()}
        yield gauges("tonnage_reservation_oldest_seconds", "Age of the oldest place that is kept.", "state", ages)
        words = "Places given up because nobody bound them in time."
        yield CounterMetricFamily("tonnage_reservations_expired", words, reservations.expired)
