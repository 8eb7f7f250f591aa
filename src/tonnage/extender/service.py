"""ExtenderService: everything that runs in `tonnage extender`: informer, reservations, binds, handshakes, requeue."""

import asyncio
import gc
import logging
import math
import time
from collections.abc import Sequence

from tonnage.binder.binder import TURN_SECONDS
from tonnage.binder.handover import GuessingPlugins, HandoverQueue
from tonnage.binder.overlaps import Overlaps
from tonnage.cluster.cluster import Cluster
from tonnage.config.defaults import DEFAULT_ACTIONS
from tonnage.devices.base import Vendor
from tonnage.extender.app import Extender, Review
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.pending import PendingPods
from tonnage.extender.recorder import ExtenderRecorder
from tonnage.extender.replicas import Replicas, SchedulerLeaseConfig
from tonnage.extender.requeue import Requeue
from tonnage.extender.reservations import RESERVATION_SECONDS, Reservations
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import BATCH_PREDICATE, PREDICATE
from tonnage.framework.session import Session
from tonnage.kube.client import Client
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import NODES, PODS, QUOTAS, WatchedKind
from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.fence import always
from tonnage.kube.leaderelection.lease import since_boot
from tonnage.kube.resource import Change
from tonnage.kube.supervision import keep_running
from tonnage.kube.watch import Backoff
from tonnage.model.annotations import BIND_PHASE, FAILED
from tonnage.plugins.filters.noderesources import NodeResources
from tonnage.server.explanations import ScheduledCluster
from tonnage.server.health import Health

log = logging.getLogger(__name__)

_HOUSEKEEPING_SECONDS = 1.0
KUBE_SCHEDULERS_OWN = ("nodeselection", "predicates")
"""Plugins whose rules kube-scheduler applies itself, to a newer state than ours, before it asks its extender."""


def without_kube_schedulers_own(plugins: Sequence[Plugin]) -> list[Plugin]:
    """The plugins without the rules about nodes that kube-scheduler applies itself.

    Resources that count cards are `ignoredByScheduler`, so the check of how many the kubelet offers stays.
    """
    return [_beside_kube_scheduler(plugin) for plugin in plugins]


def _beside_kube_scheduler(plugin: Plugin) -> Plugin:
    if isinstance(plugin, NodeResources):
        return NodeResources(plugin.args, only_cards=True)
    if plugin.name in KUBE_SCHEDULERS_OWN:
        off = plugin.options.switched_off | {BATCH_PREDICATE.name, PREDICATE.name}
        return plugin.with_options(switched_off=off)
    return plugin


class ExtenderService:
    """The extender of one cluster; `run` keeps it current, `extender` answers."""

    def __init__(
        self,
        client: Client,
        vendors: Sequence[Vendor],
        plugins: Sequence[Plugin],
        backoff: Backoff,
        recorder: ExtenderRecorder,
        review: Review,
        decides: bool = True,
        reservation_seconds: float = RESERVATION_SECONDS,
        turn_seconds: float = TURN_SECONDS,
        election: SchedulerLeaseConfig | None = None,
        scheduler_name: str = "",
    ) -> None:
        self._recorder = recorder
        self._scheduler_name = scheduler_name
        self._failed: set[str] = set()
        self._failing: set[str] = set()
        """Plugins whose failure was logged."""
        self.cluster = Cluster(vendors)
        self.informer = ClusterInformer(client, self.cluster, backoff)
        self.handovers = HandoverQueue(time.monotonic, GuessingPlugins(self.cluster))
        self._plugins = plugins
        kept = without_kube_schedulers_own(plugins)
        self.session = Session(self.cluster, kept)
        self.reservations = Reservations(self.session, kept, reservation_seconds, scheduler_name)
        self.replicas: Replicas | None = None
        """Leader election among several replicas; None if there is only one."""
        self.overlaps: Overlaps | None = None
        if election is not None:
            callbacks = LeaderCallbacks(self._prepare, self._begin, self._cease, lambda: not self.binder.unanswered)
            self.replicas = Replicas(client.unlimited, election, since_boot, callbacks)
            self.overlaps = Overlaps(client, self.cluster, time.monotonic, recorder.overlapped, self._leads)
        fence = always if self.replicas is None else self.replicas.fence
        self.binder = Binder(
            client, self.cluster, self.reservations, self.handovers, time.time, time.monotonic, turn_seconds, fence
        )
        self.handshakes = Handshakes(client, self.cluster, time.time, backoff.draw, may_write=self._leads)
        pending = PendingPods(self.session, self.reservations, time.monotonic)
        self.requeue = Requeue(client, pending, time.time, time.monotonic, recorder.requeued)
        self.ready = asyncio.Event()
        """Set once the informer has synced and the cluster state has settled."""
        self.health = Health(self.ready, self.informer.reflectors)
        self.binder.node_locks.listen(self.informer)
        self.informer.add_listener([PODS], self._pods_seen)
        self.informer.add_listener([NODES], self._nodes_seen)
        self.informer.add_listener([QUOTAS], self._quotas_seen)
        self.extender = Extender(
            self.session,
            self.reservations,
            self.binder,
            self.ready,
            time.monotonic,
            recorder,
            review,
            decides,
            self.requeue.filtered,
            self.replicas,
        )

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(keep_running("informer", self.informer.run))
                tasks.create_task(keep_running("health", self.health.run))
                tasks.create_task(self._settle())
                tasks.create_task(keep_running("housekeeping", self._housekeep))
                tasks.create_task(keep_running("handshakes", self._handshake))
                if self.replicas is not None and self.overlaps is not None:
                    # Whoever cannot follow the Lease any more must not lead, so its failure ends the process.
                    tasks.create_task(self.replicas.run())
                    tasks.create_task(keep_running("overlaps", self.overlaps.run))
                tasks.create_task(keep_running("requeue", self._requeue))
        finally:
            await self.binder.close()
            self.session.close()

    async def _settle(self) -> None:
        """Wait for the informer, then exempt the objects of the cluster from garbage collection."""
        await self.informer.synced.wait()
        self.cluster.settle()
        gc.collect()
        gc.freeze()
        self.ready.set()
        self.cluster.claims.is_settled = True
        if self.overlaps is not None:
            self.overlaps.settle()
        log.info("synced: %d nodes, %d pods", len(self.cluster.nodes), len(self.cluster.pods()))

    def _leads(self) -> bool:
        return self.replicas is None or self.replicas.leads

    async def _prepare(self) -> None:
        """Read what the last leader wrote before it stopped."""
        await self.ready.wait()
        await self.informer.refresh()

    def _begin(self) -> None:
        """Take over deciding."""
        self.requeue.begin(self._scheduler_name)

    def _cease(self) -> None:
        """Give up all places: another replica may give them to other pods now."""
        self.requeue.end()
        self.reservations.expire(math.inf)

    async def _handshake(self) -> None:
        await self.ready.wait()
        await self.handshakes.run()

    async def _requeue(self) -> None:
        """Requeue pods while this process decides: from `_begin` to `_cease`, or always if it is the only replica."""
        await self.ready.wait()
        if self.replicas is None:
            self._begin()
        await self.requeue.run()

    async def _housekeep(self) -> None:
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            for expired in self.reservations.expire(time.monotonic()):
                log.warning("%s: the place on %s was not bound in time", expired.task.key, expired.node)
            self.cluster.device_plugins.update(self.handovers.silent())
            self._log_failing_plugins()
            # This session never ends; nobody asks what it has concluded.
            self.session.reset()

    def _log_failing_plugins(self) -> None:
        """Log once that a plugin fails; decisions go on without its answer, and each failure is counted."""
        for name in self.session.failures.keys() - self._failing:
            self._failing.add(name)
            problems = [problem for problem in self.session.problems() if problem.object == f"Plugin/{name}"]
            log.warning("plugin %s fails: %s", name, "; ".join(f"{one.field}: {one.message}" for one in problems))

    def _record_plugin_failure(self, change: Change) -> None:
        """Record once that a pod's device plugin failed; the kubelet ends the pod, and its devices are free."""
        pod = change.object
        if change.is_gone or pod is None or pod.annotations.get(BIND_PHASE) != FAILED:
            self._failed.discard(change.key)
        elif change.key not in self._failed:
            self._failed.add(change.key)
            if not self._leads():
                return
            self._recorder.plugin_failed(pod)

    def _pods_seen(self, _pods: WatchedKind, changes: Sequence[Change]) -> None:
        for change in changes:
            self.handovers.seen(change.key, change.object, change.is_gone)
            self._record_plugin_failure(change)
            if change.is_gone:
                self._recorder.gone(change.key)
            self.requeue.seen(change)
        if self.overlaps is not None:
            self.overlaps.seen(changes)

    def _nodes_seen(self, _nodes: WatchedKind, changes: Sequence[Change]) -> None:
        self.handshakes.seen(change.key for change in changes)

    def _quotas_seen(self, _quotas: WatchedKind, _changes: Sequence[Change]) -> None:
        self.requeue.pending.invalidate()

    def scheduled(self) -> ScheduledCluster:
        """The cluster as it is now, for explanations: by all rules, those that kube-scheduler applies included."""
        return ScheduledCluster(self.cluster, self._plugins, DEFAULT_ACTIONS, time.time())
