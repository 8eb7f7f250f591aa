"""What every door counts for Prometheus, and how a scrape is answered.

What happens is counted as it is told; what is so is read when somebody asks. A scrape of a large cluster is sent as it
is made, slice by slice, in between everything else.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response, StreamingResponse

from tonnage import __version__
from tonnage.cluster.cluster import Cluster
from tonnage.observability.cardmetrics import card_text, columns_now
from tonnage.observability.events import DROPPED, REFUSED, REPEATED, WRITTEN
from tonnage.observability.podmetrics import pod_text
from tonnage.observability.quotametrics import quota_text

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PACKED = Middleware(GZipMiddleware, compresslevel=1)
"""Fast rather than small: the text shrinks to a twentieth either way."""
MOST_REASONS = 100
"""Plugins of users may give reasons of any name; beyond this many they are counted together."""
OTHER = "Other"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The limits of histograms for what takes some time."""


class ServerMetrics:
    """Everything that is counted, in a registry of its own; each door adds to it."""

    def __init__(self) -> None:
        # When a counter began is of no use to anybody here, and doubles the series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.write_seconds = Histogram(
            "tonnage_api_write_seconds",
            "Time that the API server took for a write.",
            ("verb", "resource", "outcome"),
            buckets=SECONDS,
            registry=registry,
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
        self.events_queued = Gauge("tonnage_events_queued", "Events that wait to be written.", registry=registry)
        for name in ("hami_build_info", "tonnage_build_info"):
            Gauge(name, "1, with the version of Tonnage.", ("version",), registry=registry).labels(__version__).set(1)
        ProcessCollector(registry=registry)
        self._reasons: set[str] = set()
        self.prepare: Callable[[], Iterator[None]] = lambda: iter(())
        """What takes long in a scrape, in slices."""

    def rejected(self, reasons: Iterable[str]) -> None:
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

    def wrote(self, method: str, path: str, seconds: float, outcome: str) -> None:
        """Take down a write to the API server; the path becomes a resource without names."""
        self.write_seconds.labels(method, resource_of(path), outcome).observe(seconds)

    def answer(self, cluster: Cluster, legacy: bool = False) -> Response:
        """The answer to a scrape; with HAMi's old names too, if wished."""
        return StreamingResponse(self.exposition(cluster, legacy), media_type=CONTENT_TYPE)

    async def exposition(self, cluster: Cluster, legacy: bool) -> AsyncIterator[bytes]:
        """The text of a scrape; other work goes on between its parts."""
        for _ in self.prepare():
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


def resource_of(path: str) -> str:
    """The resource that a path is about, as roles name it: `pods/binding` for the binding of any pod."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[:1] + parts[2:])
