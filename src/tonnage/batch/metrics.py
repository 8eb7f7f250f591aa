"""Metrics of the batch scheduler for Prometheus."""

from collections.abc import Callable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from tonnage import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Everything that is counted, in a registry of its own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.cycle_seconds = Histogram(
            "tonnage_cycle_seconds", "Time that a scheduling cycle took.", buckets=_SECONDS, registry=registry
        )
        self.bind_seconds = Histogram(
            "tonnage_bind_seconds", "Time from a decision to its Binding.", buckets=_SECONDS, registry=registry
        )
        self.pods = Counter("tonnage_batch_pods", "Pods, by what became of them.", ("outcome",), registry=registry)
        self.events = Counter(
            "tonnage_events", "Kubernetes Events, by what became of them.", ("outcome",), registry=registry
        )
        self.config_reloads = Counter(
            "tonnage_config_reloads", "New configurations, by what became of them.", ("outcome",), registry=registry
        )
        self.config_taken = Gauge(
            "tonnage_config_last_taken_timestamp_seconds",
            "Since when the configuration is in force.",
            registry=registry,
        )
        self.takeovers = Counter("tonnage_takeovers", "How often this replica came to lead.", registry=registry)
        self.overlaps = Counter(
            "tonnage_overlaps", "Pods that were evicted because another one holds their devices.", registry=registry
        )
        Gauge("tonnage_build_info", "1, with the version of Tonnage.", ("version",), registry=registry).labels(
            __version__
        ).set(1)
        ProcessCollector(registry=registry)

    def event(self, outcome: str) -> None:
        """Count an Event."""
        self.events.labels(outcome).inc()

    def show(self, figures: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        """Read these figures whenever somebody asks for metrics."""
        for name, (words, figure) in figures.items():
            Gauge(name, words, registry=self.registry).set_function(figure)

    def text(self) -> bytes:
        """All of it in Prometheus' format."""
        return generate_latest(self.registry)
