"""The metrics of a scheduler with something to tell."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from prometheus_client import generate_latest

from tests.extender.recording import described, parsed
from tests.groups import add, group, members, queue
from tests.scenario import plain, scenario
from tonnage.actions.catalog import make_actions
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import BATCH_KINDS
from tonnage.kube.watch import Backoff
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.queues.proportion import Proportion
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.unschedulable import UnschedulablePods

Scrape = dict[str, dict[frozenset[tuple[str, str]], float]]


class World:
    """A scheduler without an API server."""

    def __init__(self, cluster: Cluster, *more: Plugin) -> None:
        self.metrics = SchedulerMetrics()
        reflector = SimpleNamespace(trouble="", lists=1, breaks=0, heard=0.0)
        informer: Any = ClusterInformer(Mock(), cluster, Backoff(draw=lambda: 0.5), BATCH_KINDS)
        informer.reflectors = {"Node": reflector}
        actions = make_actions(("enqueue", "allocate"))
        self.cycle_runner = CycleRunner(cluster, [*default_plugins(), *more], actions, self.metrics.stopwatch)
        self.parts: Any = SimpleNamespace(
            cluster=cluster,
            informer=informer,
            handovers=HandoverQueue(lambda: 0.0),
            writer=SimpleNamespace(conflicts={}, locks={}),
            unschedulable=UnschedulablePods(lambda: 0.0),
            binds=(),
            events=SimpleNamespace(queued=3),
            conditions=SimpleNamespace(queued=2),
            podgroup_statuses=SimpleNamespace(queued=1),
            cycle_runner=self.cycle_runner,
            leadership=SimpleNamespace(leads=True),
            problems=(),
        )
        self.metrics.attach(self.parts)

    def scrape(self) -> Scrape:
        found: Scrape = parsed(generate_latest(self.metrics.registry).decode())
        return found


def busy() -> World:
    cluster = scenario(plain("a", 4), *members("large", 2, 4, cpu=1), *members("small", 1, 1, cpu=1))
    add(cluster, queue("team", weight=3), group("large", 2, queue="team"), group("small", 1, queue="team"))
    cluster.refusals.counts["OutOfcpu"] += 1
    world = World(cluster, Proportion())
    world.cycle_runner.run((), 0.0)
    return world


def of_the_batch_scheduler() -> set[tuple[str, str, frozenset[str]]]:
    """Name, type and labels of all its metrics."""
    world = busy()

    def use() -> None:
        world.metrics.wrote("POST", "/api/v1/nodes", 0.1, "success")
        world.metrics.rejected(["Some"])
        world.metrics.attempts.labels("bound")
        world.metrics.evictions.labels("preempt", "evicted")
        world.metrics.config_reloads.labels("taken")
        world.metrics.timings.apply_seconds.labels("Pod")

    return described(world.metrics.registry, use)
