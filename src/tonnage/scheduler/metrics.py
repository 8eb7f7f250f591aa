"""Metrics of the batch scheduler for Prometheus: what every door counts, and what cycles, jobs and queues come to."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
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
from tonnage.observability.events import EventRecorder
from tonnage.observability.fragmentmetrics import FragmentMetrics
from tonnage.observability.metrics import SECONDS, ServerMetrics
from tonnage.observability.timings import BindTimings
from tonnage.observability.workmetrics import bind_metrics, gauge, picture_metrics, plugin_metrics
from tonnage.scheduler.binds import Binds
from tonnage.scheduler.conditions import Conditions
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.problems import Problems
from tonnage.scheduler.status.podgroups import PodGroupStatuses
from tonnage.scheduler.stopwatch import Stopwatch
from tonnage.scheduler.unschedulable import UnschedulablePods

MOST_QUEUES = 500
"""Queues beyond this many, in the order of names, are not told."""
_FIGURES = {
    "deserved": "What a queue has a right to",
    "fair_share": "What a queue gets when all that want more have had their share",
    "allocated": "What the pods of a queue hold",
    "requested": "What the pods of a queue hold and wait for",
}


class SchedulerParts(Protocol):
    """The parts of a running scheduler that metrics look at."""

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
    """Everything that is counted about a batch scheduler."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self.cycle_seconds = Histogram(
            "tonnage_cycle_seconds", "Time that a scheduling cycle took.", buckets=SECONDS, registry=registry
        )
        self.bind_seconds = Histogram(
            "tonnage_bind_seconds", "Time from a decision to its Binding.", buckets=SECONDS, registry=registry
        )
        self.action_seconds = Histogram(
            "tonnage_action_seconds",
            "Time that an action took in a cycle.",
            ("action",),
            buckets=SECONDS,
            registry=registry,
        )
        self.pods = Counter("tonnage_batch_pods", "Pods, by what became of them.", ("outcome",), registry=registry)
        self.evictions = Counter(
            "tonnage_evictions",
            "Pods that had to go for others, by action and what became of it.",
            ("action", "outcome"),
            registry=registry,
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
        self.stopwatch = Stopwatch(time.perf_counter, lambda name, took: self.action_seconds.labels(name).observe(took))
        self.timings = BindTimings(registry)

    def attach(self, parts: SchedulerParts) -> None:
        """Look at a running scheduler whenever somebody asks."""
        state = SchedulerState(parts, self.stopwatch)
        self.prepare = state.prepare
        self.registry.register(state)
        self.timings.attach(parts)
        self.events_queued.set_function(lambda: parts.events.queued)


class SchedulerState(Collector):
    """What can be read at any time."""

    def __init__(
        self, parts: SchedulerParts, stopwatch: Stopwatch, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._parts = parts
        self._stopwatch = stopwatch
        self._clock = clock
        self._plugins: Sequence[Plugin] = ()
        self._fragments: FragmentMetrics

    def prepare(self) -> Iterator[None]:
        """Do in slices what takes long before `collect`."""
        yield from self._current_fragments().prepare()

    def _current_fragments(self) -> FragmentMetrics:
        """What is measured about fragments is the configuration's to say, which may have changed."""
        if self._plugins is not self._parts.cycle_runner.plugins:
            self._plugins = self._parts.cycle_runner.plugins
            self._fragments = FragmentMetrics(self._parts.cluster, self._plugins)
        return self._fragments

    def collect(self) -> Iterator[Metric]:
        parts = self._parts
        yield from picture_metrics(parts.cluster, parts.informer, self._clock())
        yield from bind_metrics(parts.handovers, len(parts.binds), parts.writer.conflicts, parts.writer.locks)
        yield from plugin_metrics(parts.cycle_runner.plugins, parts.cycle_runner.failures)
        yield from self._current_fragments().collect()
        yield gauge("tonnage_leading", "1 while this replica leads.", float(parts.leadership.leads))
        words = "Waiting pods that are not looked at until something changes."
        yield gauge("tonnage_pods_passed_over", words, len(parts.unschedulable))
        words = "What was wrong at the last look with objects that are used all the same."
        yield gauge("tonnage_cluster_problems", words, len(parts.problems))
        words = "Pods whose place others have to leave first."
        yield gauge("tonnage_pods_promised", words, len(parts.cluster.promised))
        words = "Groups of pods that wait because they cannot start whole."
        yield gauge("tonnage_gangs_waiting", words, _gangs_waiting(parts.cluster))
        yield gauge("tonnage_conditions_queued", "Conditions of pods to be written.", parts.conditions.queued)
        yield gauge("tonnage_statuses_queued", "Statuses of PodGroups to be written.", parts.podgroup_statuses.queued)
        words = "Time that a plugin took, by extension point."
        spent = CounterMetricFamily("tonnage_plugin_seconds", words, labels=("plugin", "point"))
        for (plugin, point), seconds in self._stopwatch.seconds().items():
            spent.add_metric((plugin, point), seconds)
        yield spent
        yield from queue_metrics(parts.cycle_runner.queue_figures())


def _gangs_waiting(cluster: Cluster) -> int:
    jobs = cluster.groups.jobs.values()
    return sum(1 for job in jobs if job.group is not None and job.count(PodStatus.WAITING) and job.lacking())


def queue_metrics(queues: Mapping[str, Mapping[str, QueueFigures]]) -> Iterator[Metric]:
    """Shares of queues: processors in cores, memory in bytes, GPUs in cards, others as they are."""
    for figure, words in _FIGURES.items():
        family = GaugeMetricFamily(f"tonnage_queue_{figure}", f"{words}.", labels=("queue", "resource"))
        for name in sorted(queues)[:MOST_QUEUES]:
            for resource, figures in queues[name].items():
                family.add_metric((name, resource), getattr(figures, figure))
        yield family
