"""Metrics that the extender and the batch scheduler share, and their text.

Counters count as things happen; the rest is read at the scrape. The scrape of a large cluster is sent while it is made,
slice by slice, between other work.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import cache

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics, generate_latest

from tonnage import __version__
from tonnage.cluster.cluster import Cluster
from tonnage.observability import catalog, instruments
from tonnage.observability.cardmetrics import card_text, columns_now
from tonnage.observability.events import DROPPED, REFUSED, REPEATED, WRITTEN
from tonnage.observability.podmetrics import pod_text
from tonnage.observability.quotametrics import quota_text

MOST_REASONS = 100
"""Users' plugins may give reasons of any name; beyond this many, reasons count together as `Other`."""
OTHER = "Other"
_WRITTEN = "events leases nodes podgroups pods queues subjectaccessreviews tokenreviews"
WRITTEN_RESOURCES = frozenset(
    f"{resource}{part}" for resource in _WRITTEN.split() for part in ("", "/binding", "/eviction", "/status")
)
"""What both servers write to; a write to anything else counts as `other`."""
OTHER_RESOURCE = "other"


class ServerMetrics:
    """Counters and histograms in a registry of their own; the extender and the scheduler each add theirs."""

    def __init__(self) -> None:
        # The time at which a counter began doubles the series, and nobody uses it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.write_seconds = instruments.histogram("tonnage_api_write_duration_seconds", registry)
        self.rejections = instruments.counter("tonnage_unschedulable_reasons_total", registry)
        self._written = cache(self.write_seconds.labels)
        self.events = instruments.counter("tonnage_events_total", registry)
        self._events = {outcome: self.events.labels(outcome) for outcome in (WRITTEN, REPEATED, DROPPED, REFUSED)}
        self.overlaps = instruments.counter("tonnage_overlap_evictions_total", registry)
        self.events_queued = instruments.gauge("tonnage_events_queued", registry)
        build = catalog.METRICS["tonnage_build_info"]
        for name in ("hami_build_info", "tonnage_build_info"):
            Gauge(name, build.help, build.labels, registry=registry).labels(__version__).set(1)
        ProcessCollector(registry=registry)
        self._reasons: set[str] = set()
        self.prepare: Callable[[], Iterator[None]] = lambda: iter(())
        """The slow part of a scrape, in slices."""

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
        self._events[outcome].inc()

    def wrote(self, method: str, path: str, seconds: float, outcome: str) -> None:
        """Record a write to the API server; the path becomes a resource without names, of a fixed set."""
        resource = resource_of(path)
        resource = resource if resource in WRITTEN_RESOURCES else OTHER_RESOURCE
        self._written(method, resource, outcome).observe(seconds)

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
