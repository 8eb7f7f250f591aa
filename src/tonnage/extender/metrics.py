"""The extender's Prometheus metrics: requests, reservations, binds, and their durations."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.extender import handshake
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.replicas import Replicas
from tonnage.extender.requeue import PLACED
from tonnage.extender.reservations import Reservations
from tonnage.framework.session import Session
from tonnage.kube.informer import ClusterInformer
from tonnage.observability import instruments
from tonnage.observability.fragmentmetrics import FragmentMetrics
from tonnage.observability.instruments import read
from tonnage.observability.metrics import ServerMetrics
from tonnage.observability.scrapes import MOST_SCRAPES, PACKED, PATH, scrape
from tonnage.observability.timings import BindTimings
from tonnage.observability.workmetrics import bind_metrics, informer_metrics, plugin_metrics, zeros
from tonnage.server.callers import Guard, anybody
from tonnage.server.inflight import InFlight

VERBS = ("filter", "prioritize", "preempt", "bind", "webhook")
"""The requests that are timed, each at a path of its own."""
HANDSHAKES = (handshake.ASKED, handshake.WRITTEN_OFF, handshake.NOT_WRITTEN)


class ExtenderParts(Protocol):
    """The parts of a running extender that metrics read."""

    cluster: Cluster
    informer: ClusterInformer
    reservations: Reservations
    handovers: HandoverQueue
    replicas: Replicas | None
    binder: Binder
    handshakes: Handshakes
    session: Session


class ExtenderMetrics(ServerMetrics):
    """All metrics of an extender."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self.filter_seconds = instruments.histogram("tonnage_filter_duration_seconds", registry)
        self.bind_seconds = instruments.histogram("tonnage_bind_duration_seconds", registry)
        self.timings = RequestTimings(registry)
        self.device_plugin_failures = instruments.counter("tonnage_device_plugin_failures_total", registry)
        self.decisions = instruments.counter("tonnage_decisions_total", registry)
        self.requeue_writes = instruments.counter("tonnage_requeue_writes_total", registry)
        self.pods_requeued = instruments.counter("tonnage_pods_requeued_total", registry)

    def requeued(self, outcome: str) -> None:
        """Count the write that requeues a pod, or the placement of a requeued pod."""
        if outcome == PLACED:
            self.pods_requeued.inc()
        else:
            self.requeue_writes.labels(outcome).inc()

    def app(
        self, parts: ExtenderParts, legacy: bool = False, guard: Guard = anybody, more: Sequence[BaseRoute] = ()
    ) -> Starlette:
        """The application that serves the metrics, with HAMi's old names too if `legacy` is set, and `more` routes."""
        state = ExtenderState(parts)
        self.prepare = state.prepare
        self.registry.register(state)
        self.timings.attach(parts)

        async def metrics(request: Request) -> Response:
            return scrape(self, parts.cluster, legacy)

        endpoint = InFlight(request_response(guard(metrics)), MOST_SCRAPES)
        return Starlette(routes=[Route(PATH, endpoint, methods=["GET"]), *more], middleware=[PACKED])


class RequestTimings(BindTimings):
    """Durations of requests, beside those of binds and the watch."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self.request_seconds = instruments.histogram("tonnage_request_duration_seconds", registry)
        super().__init__(registry, clock)

    def timed(self, app: ASGIApp) -> ASGIApp:
        """The application with every request timed."""
        observers = {f"/{verb}": self.request_seconds.labels(verb).observe for verb in VERBS}

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            observe = observers.get(scope.get("path", ""))
            if observe is None:
                await app(scope, receive, send)
                return
            begun = self._clock()
            try:
                await app(scope, receive, send)
            finally:
                observe(self._clock() - begun)

        return answer


class ExtenderState(Collector):
    """Gauges and counters that are read at a scrape."""

    def __init__(self, parts: ExtenderParts, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._clock = clock
        """The clock of reservations."""
        self._fragments = FragmentMetrics(parts.cluster, parts.reservations.plugins)
        self.prepare = self._fragments.prepare

    def collect(self) -> Iterator[Metric]:
        parts, binder = self._parts, self._parts.binder
        yield from self._replicas()
        yield from self._reservations()
        yield from bind_metrics(parts.handovers, binder.in_flight, binder.conflicts, binder.locks)
        yield read("tonnage_bind_writes_queued", binder.behind)
        yield from informer_metrics(parts.cluster, parts.informer, self._clock())
        yield read("tonnage_handshakes_total", zeros(HANDSHAKES) | parts.handshakes.outcomes)
        yield from plugin_metrics(parts.reservations.plugins, parts.session.failures)
        yield from self._fragments.collect()

    def _replicas(self) -> Iterator[Metric]:
        replicas = self._parts.replicas
        yield read("tonnage_leader", float(replicas is None or replicas.leads))
        yield read("tonnage_requests_forwarded_total", 0 if replicas is None else replicas.forwarder.forwarded)

    def _reservations(self) -> Iterator[Metric]:
        reservations = self._parts.reservations
        yield read("tonnage_reservations", {state.value: count for state, count in reservations.count().items()})
        ages = {state.value: age for state, age in reservations.oldest(self._clock()).items()}
        yield read("tonnage_reservation_oldest_age_seconds", ages)
        yield read("tonnage_reservations_expired_total", reservations.expired)
