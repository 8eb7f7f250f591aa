"""Metrics of the extender for Prometheus: what it is asked, what it does and how long it takes."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.replicas import Replicas
from tonnage.extender.requeue import PLACED
from tonnage.extender.reservations import Reservations
from tonnage.extender.timings import Timings
from tonnage.extender.workmetrics import ExtenderWork
from tonnage.framework.session import Session
from tonnage.kube.informer import ClusterInformer
from tonnage.observability.fragmentmetrics import FragmentMetrics
from tonnage.observability.metrics import PACKED, PATH, SECONDS, ServerMetrics
from tonnage.observability.workmetrics import gauge

_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class ExtenderParts(Protocol):
    """The parts of a running extender that metrics look at."""

    cluster: Cluster
    informer: ClusterInformer
    reservations: Reservations
    handovers: HandoverQueue
    replicas: Replicas | None
    binder: Binder
    handshakes: Handshakes
    session: Session


class ExtenderMetrics(ServerMetrics):
    """Everything that is counted about an extender."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self.filter_seconds = Histogram(
            "tonnage_filter_seconds", "Time to decide a filter request.", buckets=_FAST, registry=registry
        )
        self.bind_seconds = Histogram(
            "tonnage_bind_seconds",
            "Time to bind a pod, waiting for its node included.",
            buckets=SECONDS,
            registry=registry,
        )
        self.timings = Timings(registry)
        self.device_plugin_failures = Counter(
            "tonnage_device_plugin_failures", "Pods whose device plugin could not hand out devices.", registry=registry
        )
        self.decisions = Counter(
            "tonnage_decisions", "Answers to kube-scheduler.", ("verb", "outcome"), registry=registry
        )
        self.wake_writes = Counter(
            "tonnage_wake_writes",
            "Writes that call waiting pods, by what became of them.",
            ("outcome",),
            registry=registry,
        )
        self.pods_woken = Counter(
            "tonnage_pods_woken", "Waiting pods that were called and then placed.", registry=registry
        )

    def call(self, outcome: str) -> None:
        """Count what became of the call of a waiting pod."""
        if outcome == PLACED:
            self.pods_woken.inc()
        else:
            self.wake_writes.labels(outcome).inc()

    def app(self, parts: ExtenderParts, legacy: bool = False) -> Starlette:
        """Serves the metrics of an extender; with HAMi's old names too, if wished."""
        state = ExtenderState(parts)
        self.prepare = state.prepare
        self.registry.register(state)
        self.registry.register(ExtenderWork(parts))
        self.timings.attach(parts)

        async def metrics(request: Request) -> Response:
            return self.answer(parts.cluster, legacy)

        return Starlette(routes=[Route(PATH, metrics)], middleware=[PACKED])


class ExtenderState(Collector):
    """Who leads, and how much of the free cards is of use."""

    def __init__(self, parts: ExtenderParts) -> None:
        self._parts = parts
        self._fragments = FragmentMetrics(parts.cluster, parts.reservations.plugins)
        self.prepare = self._fragments.prepare

    def collect(self) -> Iterator[Metric]:
        replicas = self._parts.replicas
        yield gauge("tonnage_leading", "1 while this replica leads.", float(replicas is None or replicas.leads))
        forwarded = 0 if replicas is None else replicas.forwarder.forwarded
        yield CounterMetricFamily("tonnage_forwarded", "Requests that another replica answered.", forwarded)
        yield from self._fragments.collect()
