"""The batch scheduler's Prometheus metrics: cycles, binds, evictions, jobs and queues."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tonnage.binder.binding import BindingWriter
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import PodStatus
from tonnage.framework.decision import QueueFigures
from tonnage.framework.plugin import Plugin
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.leaderelection.leadership import Leadership
from tonnage.observability import instruments
from tonnage.observability.events import EventRecorder
from tonnage.observability.fragmentmetrics import FragmentMetrics
from tonnage.observability.instruments import read
from tonnage.observability.metrics import ServerMetrics
from tonnage.observability.timings import BindTimings
from tonnage.observability.workmetrics import bind_metrics, informer_metrics, plugin_metrics
from tonnage.scheduler.binds import Binds
from tonnage.scheduler.conditions import Conditions
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.problems import Problems
from tonnage.scheduler.status.podgroups import PodGroupStatuses
from tonnage.scheduler.stopwatch import Stopwatch
from tonnage.scheduler.unschedulable import UnschedulablePods

MOST_QUEUES = 500
"""Queues beyond this many, in the order of names, have no series."""
_FIGURES = ("deserved", "fair_share", "allocated", "requested")


class SchedulerParts(Protocol):
    """The parts of a running scheduler that metrics read."""

    cluster: Cluster
    informer: ClusterInformer
    handovers: HandoverQueue
    writer: BindingWriter
    unschedulable: UnschedulablePods
    binds: Binds
    events: EventRecorder
    conditions: Conditions
    podgroup_statuses: PodGroupStatuses
    cycle_runner: CycleRunner
    leadership: Leadership
    problems: Problems


class SchedulerMetrics(ServerMetrics):
    """All metrics of a batch scheduler."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self.cycle_seconds = instruments.histogram("tonnage_cycle_duration_seconds", registry)
        self.bind_seconds = instruments.histogram("tonnage_bind_duration_seconds", registry)
        self.action_seconds = instruments.histogram("tonnage_action_duration_seconds", registry)
        self.attempts = instruments.counter("tonnage_schedule_attempts_total", registry)
        self.evictions = instruments.counter("tonnage_evictions_total", registry)
        self.groups_late = instruments.counter("tonnage_groups_late_total", registry)
        self.config_reloads = instruments.counter("tonnage_config_reloads_total", registry)
        self.config_reloaded = instruments.gauge("tonnage_config_last_reload_success_timestamp_seconds", registry)
        self.leader_acquisitions = instruments.counter("tonnage_leader_acquisitions_total", registry)
        self.stopwatch = Stopwatch(time.perf_counter, lambda name, took: self.action_seconds.labels(name).observe(took))
        self.timings = BindTimings(registry)

    def attach(self, parts: SchedulerParts) -> None:
        """Read a running scheduler at each scrape."""
        state = SchedulerState(parts, self.stopwatch)
        self.prepare = state.prepare
        self.registry.register(state)
        self.timings.attach(parts)
        self.events_queued.set_function(lambda: parts.events.queued)


class SchedulerState(Collector):
    """Gauges and counters that are read at a scrape."""

    def __init__(
        self, parts: SchedulerParts, stopwatch: Stopwatch, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._parts = parts
        self._stopwatch = stopwatch
        self._clock = clock
        self._plugins: Sequence[Plugin] = ()
        self._fragments: FragmentMetrics

    def prepare(self) -> Iterator[None]:
        """Do the slow part of `collect` in slices."""
        yield from self._current_fragments().prepare()

    def _current_fragments(self) -> FragmentMetrics:
        """The fragmentation metrics of the configuration in force, which may have changed."""
        if self._plugins is not self._parts.cycle_runner.plugins:
            self._plugins = self._parts.cycle_runner.plugins
            self._fragments = FragmentMetrics(self._parts.cluster, self._plugins)
        return self._fragments

    def collect(self) -> Iterator[Metric]:
        parts = self._parts
        yield from informer_metrics(parts.cluster, parts.informer, self._clock())
        yield from bind_metrics(parts.handovers, len(parts.binds), parts.writer.conflicts, parts.writer.locks)
        yield from plugin_metrics(parts.cycle_runner.plugins, parts.cycle_runner.failures)
        yield from self._current_fragments().collect()
        yield read("tonnage_cycle_failures_total", parts.cycle_runner.failed_cycles())
        yield read("tonnage_jobs_set_aside", len(parts.cycle_runner.set_aside))
        yield read("tonnage_leader", float(parts.leadership.leads))
        yield read("tonnage_pods_unschedulable", len(parts.unschedulable))
        yield read("tonnage_cluster_problems", len(parts.problems))
        yield read("tonnage_pods_nominated", len(parts.cluster.pipelined))
        yield read("tonnage_kubelet_refusals_total", parts.cluster.refusals.counts)
        yield read("tonnage_pods_held_for_group", len(parts.cluster.groups.expected))
        yield read("tonnage_gangs_pending", _gangs_pending(parts.cluster))
        yield read("tonnage_conditions_queued", parts.conditions.queued)
        yield read("tonnage_statuses_queued", parts.podgroup_statuses.queued)
        yield read("tonnage_plugin_duration_seconds_total", self._stopwatch.seconds())
        yield from queue_metrics(parts.cycle_runner.queue_figures())


def _gangs_pending(cluster: Cluster) -> int:
    jobs = cluster.groups.jobs.values()
    return sum(1 for job in jobs if job.group is not None and job.count(PodStatus.WAITING) and job.lacking())


def queue_metrics(queues: Mapping[str, Mapping[str, QueueFigures]]) -> Iterator[Metric]:
    """Shares of queues: CPU in cores, memory in bytes, GPUs in cards, other resources in their own unit."""
    names = sorted(queues)[:MOST_QUEUES]
    for figure in _FIGURES:
        values = {
            (name, resource): getattr(figures, figure) for name in names for resource, figures in queues[name].items()
        }
        yield read(f"tonnage_queue_{figure}", values)
