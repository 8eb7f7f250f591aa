"""Gauges and counters that the extender and the batch scheduler share, read at a scrape.

A counter that is still 0 is there too.
"""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from tonnage.binder import binding, nodelocks
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.kube import supervision
from tonnage.kube.informer import STAGES, ClusterInformer
from tonnage.observability.instruments import read

CONFLICTS = (binding.REFUSED, binding.FOUND_BOUND, binding.FOUND_NOT_BOUND)
LOCKS = (nodelocks.TAKEN, nodelocks.TAKEN_OVER, nodelocks.NOT_TAKEN)


def informer_metrics(cluster: Cluster, informer: ClusterInformer, now: float) -> Iterator[Metric]:
    """The size of the cluster state and how the informer keeps it current; `now` by the reflectors' clock."""
    pods = {"waiting": len(cluster.waiting), "reserved": len(cluster.reserved), "bound": len(cluster.running)}
    yield read("tonnage_pods", pods)
    yield read("tonnage_nodes", len(cluster.nodes))
    yield read("tonnage_pods_ignored_device_claims", len(cluster.claims.ignored))
    yield read("tonnage_informer_synced", float(informer.synced.is_set()))
    yield read("tonnage_informer_events_total", informer.applied)
    reflectors = informer.reflectors
    failing = {kind: float(bool(reflector.trouble)) for kind, reflector in reflectors.items()}
    yield read("tonnage_informer_watch_failing", failing)
    yield read("tonnage_informer_lists_total", {kind: reflector.lists for kind, reflector in reflectors.items()})
    errors = {kind: reflector.breaks for kind, reflector in reflectors.items()}
    yield read("tonnage_informer_watch_errors_total", errors)
    silence = {kind: now - reflector.heard for kind, reflector in reflectors.items()}
    yield read("tonnage_informer_silence_seconds", silence)
    failures = {(kind, stage): informer.failures[kind, stage] for kind in reflectors for stage in STAGES}
    yield read("tonnage_informer_failures_total", failures)
    yield read("tonnage_informer_unreadable_objects", len(informer.problems))
    yield read("tonnage_task_failures_total", dict(supervision.failures))


def bind_metrics(
    handovers: HandoverQueue, in_flight: int, conflicts: dict[str, int], locks: dict[str, int]
) -> Iterator[Metric]:
    """Binds under way or waiting for their node, and the results of their writes."""
    yield read("tonnage_binds_waiting", handovers.waiting)
    yield read("tonnage_nodes_device_plugin_silent", len(handovers.silent()))
    yield read("tonnage_binds_in_flight", in_flight)
    yield read("tonnage_bind_conflicts_total", zeros(CONFLICTS) | conflicts)
    yield read("tonnage_node_locks_total", zeros(LOCKS) | locks)


def plugin_metrics(plugins: Sequence[Plugin], failures: dict[str, int]) -> Iterator[Metric]:
    """Failures of scheduling plugins."""
    yield read("tonnage_plugin_failures_total", zeros(plugin.name for plugin in plugins) | failures)


def zeros(names: Iterable[str]) -> dict[str, int]:
    """A count of 0 for each name."""
    return dict.fromkeys(names, 0)
