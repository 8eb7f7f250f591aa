"""Metrics for Prometheus: HAMi's about cards and containers, and what the extender does and how long it takes.

What happens is counted as it is told; what is so (reservations, waiting binds, the state of the watch) is read when
somebody asks. A scrape of a large cluster is sent as it is made, slice by slice, in between everything else.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tonnage import __version__
from tonnage.cluster.cluster import Cluster
from tonnage.doors.events import DROPPED, REFUSED, REPEATED, WRITTEN
from tonnage.doors.gates import Gates
from tonnage.extender.binding import Binder
from tonnage.extender.cardmetrics import card_text, columns_now
from tonnage.extender.exposition import CONTENT_TYPE
from tonnage.extender.fragmentmetrics import FragmentMetrics
from tonnage.extender.handshake import Handshakes
from tonnage.extender.placing import Placing
from tonnage.extender.podmetrics import pod_text
from tonnage.extender.quotametrics import quota_text
from tonnage.extender.replicas import Replicas
from tonnage.extender.timings import Timings
from tonnage.extender.waking import PLACED
from tonnage.extender.workmetrics import Work
from tonnage.framework.session import Session
from tonnage.kube.picture import Picture

PATH = "/metrics"
MOST_REASONS = 100
"""Plugins of users may give reasons of any name; beyond this many they are counted together."""
OTHER = "Other"
_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SLOW = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Parts(Protocol):
    """The parts of a running extender that metrics look at."""

    cluster: Cluster
    picture: Picture
    placing: Placing
    gates: Gates
    replicas: Replicas | None
    binder: Binder
    handshakes: Handshakes
    session: Session


class Metrics:
    """Everything that is counted, in a registry of its own."""

    def __init__(self) -> None:
        # When a counter began is of no use to anybody here, and doubles the series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.filter_seconds = Histogram(
            "tonnage_filter_seconds", "Time to decide a filter request.", buckets=_FAST, registry=registry
        )
        self.bind_seconds = Histogram(
            "tonnage_bind_seconds",
            "Time to bind a pod, waiting for its node included.",
            buckets=_SLOW,
            registry=registry,
        )
        self.write_seconds = Histogram(
            "tonnage_api_write_seconds",
            "Time that the API server took for a write.",
            ("verb", "resource", "outcome"),
            buckets=_SLOW,
            registry=registry,
        )
        self.timings = Timings(registry)
        self.device_plugin_failures = Counter(
            "tonnage_device_plugin_failures", "Pods whose device plugin could not hand out devices.", registry=registry
        )
        self.decisions = Counter(
            "tonnage_decisions", "Answers to kube-scheduler.", ("verb", "outcome"), registry=registry
        )
        self.rejections = Counter(
            "tonnage_unschedulable_reasons",
            "Pods that no node fits, by each reason that some node has against them.",
            ("reason",),
            registry=registry,
        )
        self.events = Counter(
            "tonnage_events", "Kubernetes Events, by what became of them.", ("outcome",), registry=registry
        )
        for outcome in (WRITTEN, REPEATED, DROPPED, REFUSED):
            self.events.labels(outcome)
        self.overlaps = Counter(
            "tonnage_overlaps", "Pods that were evicted because another one holds their devices.", registry=registry
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
        self.events_queued = Gauge("tonnage_events_queued", "Events that wait to be written.", registry=registry)
        for name in ("hami_build_info", "tonnage_build_info"):
            Gauge(name, "1, with the version of Tonnage.", ("version",), registry=registry).labels(__version__).set(1)
        ProcessCollector(registry=registry)
        self._reasons: set[str] = set()
        self._prepare: Callable[[], Iterator[None]] = lambda: iter(())
        """What takes long in a scrape, in slices."""

    def rejected(self, reasons: Mapping[str, int]) -> None:
        """Count a pod that no node fits."""
        for reason in reasons:
            if reason not in self._reasons:
                if len(self._reasons) >= MOST_REASONS:
                    reason = OTHER
                self._reasons.add(reason)
            self.rejections.labels(reason).inc()

    def event(self, outcome: str) -> None:
        """Count an Event."""
        self.events.labels(outcome).inc()

    def call(self, outcome: str) -> None:
        """Count what became of the call of a waiting pod."""
        if outcome == PLACED:
            self.pods_woken.inc()
        else:
            self.wake_writes.labels(outcome).inc()

    def wrote(self, method: str, path: str, seconds: float, outcome: str) -> None:
        """Take down a write to the API server; the path becomes a resource without names."""
        self.write_seconds.labels(method, resource_of(path), outcome).observe(seconds)

    def app(self, parts: Parts, legacy: bool = False) -> Starlette:
        """Serves the metrics of an extender; with HAMi's old names too, if wished."""
        state = State(parts)
        self._prepare = state.prepare
        self.registry.register(state)
        self.registry.register(Work(parts))
        self.timings.attach(parts)

        async def metrics(request: Request) -> Response:
            return StreamingResponse(self.exposition(parts.cluster, legacy), media_type=CONTENT_TYPE)

        # Fast rather than small: the text shrinks to a twentieth either way.
        packed = Middleware(GZipMiddleware, compresslevel=1)
        return Starlette(routes=[Route(PATH, metrics)], middleware=[packed])

    async def exposition(self, cluster: Cluster, legacy: bool) -> AsyncIterator[bytes]:
        """The text of a scrape; other work goes on between its parts."""
        for _ in self._prepare():
            await asyncio.sleep(0)
        yield generate_latest(self.registry)
        for text in cluster_text(cluster, legacy):
            if text:
                yield text.encode()
            await asyncio.sleep(0)


def cluster_text(cluster: Cluster, legacy: bool) -> Iterator[str]:
    """HAMi's metrics, in small parts."""
    now = columns_now(cluster)
    yield ""
    yield from card_text(now, legacy)
    yield from pod_text(cluster, legacy)
    yield from quota_text(cluster.quotas, legacy)


class State(Collector):
    """What can be read at any time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._fragments = FragmentMetrics(parts.cluster, parts.placing.plugins)
        self.prepare = self._fragments.prepare

    def collect(self) -> Iterator[Metric]:
        parts, cluster, picture = self._parts, self._parts.cluster, self._parts.picture
        counts = {state.value: count for state, count in parts.placing.count().items()}
        yield _gauges("tonnage_reservations", "Places kept for pods, by how far they have come.", "state", counts)
        yield _gauge("tonnage_binds_waiting", "Binds that wait for their node.", parts.gates.waiting)
        silent = len(parts.gates.silent())
        yield _gauge("tonnage_silent_nodes", "Nodes whose device plugin does not answer.", silent)
        pods = {"waiting": len(cluster.waiting), "reserved": len(cluster.reserved), "bound": len(cluster.running)}
        yield _gauges("tonnage_pods", "Pods in the picture of the cluster.", "state", pods)
        yield _gauge("tonnage_nodes", "Nodes in the picture of the cluster.", len(cluster.nodes))
        leads = parts.replicas is None or parts.replicas.leads
        yield _gauge("tonnage_leading", "1 while this replica leads.", float(leads))
        forwarded = CounterMetricFamily("tonnage_forwarded", "Requests that another replica answered.")
        forwarded.add_metric((), 0 if parts.replicas is None else parts.replicas.forwarder.forwarded)
        yield forwarded
        yield from self._fragments.collect()
        synced = float(picture.synced.is_set())
        yield _gauge("tonnage_picture_synced", "1 once everything was listed.", synced)
        changes = CounterMetricFamily("tonnage_picture_changes", "Changes taken over from the API server.")
        changes.add_metric((), picture.applied)
        yield changes
        trouble = {kind: float(bool(follower.trouble)) for kind, follower in picture.followers.items()}
        yield _gauges("tonnage_picture_trouble", "1 while objects of the kind cannot be followed.", "kind", trouble)
        lists = CounterMetricFamily("tonnage_picture_lists", "How often everything was listed.", labels=("kind",))
        breaks = CounterMetricFamily("tonnage_picture_breaks", "How often a watch broke.", labels=("kind",))
        for kind, follower in picture.followers.items():
            lists.add_metric((kind,), follower.lists)
            breaks.add_metric((kind,), follower.breaks)
        yield lists
        yield breaks
        yield _gauge("tonnage_picture_problems", "Objects that cannot be read.", len(picture.problems))


def resource_of(path: str) -> str:
    """The resource that a path is about, as roles name it: `pods/binding` for the binding of any pod."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[:1] + parts[2:])


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value)


def _gauges(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
