"""Metrics that doors have in common, read from those who do the work when somebody asks.

A count that is still 0 is there too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from tonnage.binder import binding, nodelocks
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.kube.informer import ClusterInformer

F = TypeVar("F", CounterMetricFamily, GaugeMetricFamily)

CONFLICTS = (binding.REFUSED, binding.FOUND_BOUND, binding.FOUND_NOT_BOUND)
LOCKS = (nodelocks.TAKEN, nodelocks.TAKEN_OVER, nodelocks.NOT_TAKEN)


def picture_metrics(cluster: Cluster, informer: ClusterInformer, now: float) -> Iterator[Metric]:
    """What the picture of the cluster holds, and how it is kept current; `now` by the clock that followers go by."""
    pods = {"waiting": len(cluster.waiting), "reserved": len(cluster.reserved), "bound": len(cluster.running)}
    yield gauges("tonnage_pods", "Pods in the picture of the cluster.", "state", pods)
    yield gauge("tonnage_nodes", "Nodes in the picture of the cluster.", len(cluster.nodes))
    yield gauge("tonnage_picture_synced", "1 once everything was listed.", float(informer.synced.is_set()))
    yield CounterMetricFamily("tonnage_picture_changes", "Changes taken over from the API server.", informer.applied)
    reflectors = informer.reflectors
    trouble = {kind: float(bool(reflector.trouble)) for kind, reflector in reflectors.items()}
    yield gauges("tonnage_picture_trouble", "1 while objects of the kind cannot be followed.", "kind", trouble)
    lists = {kind: reflector.lists for kind, reflector in reflectors.items()}
    yield counts("tonnage_picture_lists", "How often everything was listed.", "kind", lists)
    breaks = {kind: reflector.breaks for kind, reflector in reflectors.items()}
    yield counts("tonnage_picture_breaks", "How often a watch broke.", "kind", breaks)
    silence = {kind: now - reflector.heard for kind, reflector in reflectors.items()}
    words = "Time since the API server last said something about the kind, be it a bookmark."
    yield gauges("tonnage_picture_silence_seconds", words, "kind", silence)
    yield gauge("tonnage_picture_problems", "Objects that cannot be read.", len(informer.problems))


def bind_metrics(
    handovers: HandoverQueue, in_flight: int, conflicts: dict[str, int], locks: dict[str, int]
) -> Iterator[Metric]:
    """Binds that are under way or wait for their node, and what became of writes."""
    yield gauge("tonnage_binds_waiting", "Binds that wait for their node.", handovers.waiting)
    yield gauge("tonnage_silent_nodes", "Nodes whose device plugin does not answer.", len(handovers.silent()))
    words = "Binds that are not answered yet, those that wait for their node included."
    yield gauge("tonnage_binds_in_flight", words, in_flight)
    words = "Bindings that met a conflict, or whose outcome was not known, by what became of them."
    yield counts("tonnage_bind_conflicts", words, "outcome", zeros(CONFLICTS) | conflicts)
    yield counts("tonnage_node_locks", "Locks of nodes that were written.", "outcome", zeros(LOCKS) | locks)


def plugin_metrics(plugins: Sequence[Plugin], failures: dict[str, int]) -> Iterator[Metric]:
    """What plugins failed to answer."""
    words = "How often a plugin of the scheduler failed to answer."
    found = zeros(plugin.name for plugin in plugins) | failures
    yield counts("tonnage_plugin_failures", words, "plugin", found)


def zeros(names: Iterable[str]) -> dict[str, int]:
    """A count for each name."""
    return dict.fromkeys(names, 0)


def gauge(name: str, words: str, value: float) -> Metric:
    """A metric with one value."""
    return GaugeMetricFamily(name, words, value)


def gauges(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    """A metric with a value for each value of a label."""
    return _filled(GaugeMetricFamily(name, words, labels=(label,)), values)


def counts(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    """The same for values that only grow."""
    return _filled(CounterMetricFamily(name, words, labels=(label,)), values)


def _filled(family: F, values: Mapping[str, float]) -> F:
    for label, value in values.items():
        family.add_metric((label,), value)
    return family
