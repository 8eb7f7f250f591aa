"""The catalog's metrics as those of prometheus_client, which the servers register.

The agent writes its few by itself: the library costs a small process three megabytes and a part of its start.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from tonnage.observability.catalog import COUNTER, GAUGE, HISTOGRAM, METRICS


def counter(name: str, registry: CollectorRegistry) -> Counter:
    """A counter that is counted up as things happen."""
    spec = METRICS[name]
    assert spec.kind == COUNTER, name
    return Counter(name, spec.help, spec.labels, registry=registry)


def gauge(name: str, registry: CollectorRegistry) -> Gauge:
    """A gauge that is set as things happen."""
    spec = METRICS[name]
    assert spec.kind == GAUGE, name
    return Gauge(name, spec.help, spec.labels, registry=registry)


def histogram(name: str, registry: CollectorRegistry) -> Histogram:
    """A histogram with the metric's buckets."""
    spec = METRICS[name]
    assert spec.kind == HISTOGRAM, name
    return Histogram(name, spec.help, spec.labels, buckets=spec.buckets, registry=registry)


def read(name: str, value: float | Mapping[str, float] | Mapping[tuple[str, str], float]) -> Metric:
    """A counter or gauge read at the moment of a scrape: one value, or one for each value of its labels."""
    spec = METRICS[name]
    family: CounterMetricFamily | GaugeMetricFamily
    if spec.kind == COUNTER:
        family = CounterMetricFamily(name, spec.help, labels=spec.labels)
    else:
        family = GaugeMetricFamily(name, spec.help, labels=spec.labels)
    if not isinstance(value, Mapping):
        family.add_metric((), value)
        return family
    for labels, number in value.items():
        family.add_metric((labels,) if isinstance(labels, str) else labels, number)
    return family
