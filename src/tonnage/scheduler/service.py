"""SchedulerService: everything that runs in `tonnage scheduler`: the informer, cycles, binds, evictions and statuses.

All that touches the cluster's state runs on one event loop. A cycle decides about the pending pods in one go and
reserves their places; other tasks write Bindings, Evictions and statuses, so the next cycle does not wait for them.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from tonnage.binder.binding import BindingWriter
from tonnage.binder.handover import HandoverQueue
from tonnage.binder.overlaps import Overlaps
from tonnage.cluster.cluster import Cluster
from tonnage.devices.base import Vendor
from tonnage.framework.action import Action
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.kube.client import Client
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import PODS, WatchedKind, batch_kinds
from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.fence import FencedClient
from tonnage.kube.leaderelection.leaderelector import LeaderElector
from tonnage.kube.leaderelection.leadership import Leadership
from tonnage.kube.resource import Change
from tonnage.kube.watch import Backoff
from tonnage.observability.events import EventRecorder
from tonnage.scheduler.binds import AT_ONCE, Binds
from tonnage.scheduler.conditions import Conditions
from tonnage.scheduler.cyclelimit import CycleLimit
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.evictions.evictor import Evictor
from tonnage.scheduler.evictions.plans import EvictionPlan, Victim
from tonnage.scheduler.evictions.writer import EvictionWriter
from tonnage.scheduler.messages import Messages
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.nominations import STAY_SECONDS
from tonnage.scheduler.problems import Problems, Unreadable
from tonnage.scheduler.recorder import SchedulerRecorder
from tonnage.scheduler.snapshot import collect
from tonnage.scheduler.status.podgroups import PodGroupStatuses
from tonnage.scheduler.status.queues import QueueStatuses
from tonnage.scheduler.status.stalegangs import StaleGangs
from tonnage.scheduler.triggers import Triggers
from tonnage.scheduler.unschedulable import UnschedulablePods

log = logging.getLogger(__name__)

LONGEST_REST = 0.25
"""The longest pause between cycles, in seconds: pods of high priority may have come meanwhile."""


_FIRST_LOOK = 1.0
"""How long the first list waits until the Lease was read, in seconds."""


class SchedulerService:
    """Schedules the pods that name it, while `run` runs."""

    def __init__(
        self,
        client: Client,
        vendors: Sequence[Vendor],
        plugins: Sequence[Plugin],
        actions: Sequence[Action],
        backoff: Backoff,
        metrics: SchedulerMetrics,
        scheduler_name: str,
        binds_at_once: int = AT_ONCE,
        elector: LeaderElector | None = None,
    ) -> None:
        self.cluster = Cluster(vendors)
        self.unschedulable = UnschedulablePods(time.monotonic)
        self._cycle_limit = CycleLimit(self.unschedulable)
        self._changed = asyncio.Event()
        self._triggers = Triggers(scheduler_name, self.unschedulable, self._changed.set)
        self.informer = ClusterInformer(client, self.cluster, backoff, batch_kinds(self._triggers.is_ours))
        self._triggers.listen(self.informer)
        self.problems = Problems(self.cluster, self.informer.problems)
        self._unreadable = Unreadable(self.informer.problems, self._triggers.room_came_free)
        self.informer.add_listener([PODS], self._seen)
        self._unreadable.listen(self.informer)
        self._metrics = metrics
        self._is_elected = elector is not None
        callbacks = LeaderCallbacks(self._prepare, self._begin, self._cease, self._is_idle)
        self.leadership = Leadership(elector, callbacks)
        self._fenced = fenced = FencedClient(client, self.leadership.fence)
        self.events = EventRecorder(fenced, time.time, scheduler_name, metrics.event)
        self.conditions = Conditions(fenced, time.time)
        self.podgroup_statuses = PodGroupStatuses(
            fenced, self.cluster, self._triggers.is_ours, time.time, self.leadership.leading
        )
        self.queue_statuses = QueueStatuses(fenced, self.cluster, self.leadership.leading)
        self.podgroup_statuses.listen(self.informer)
        self.queue_statuses.listen(self.informer)
        self._recorder = SchedulerRecorder(metrics, self.events, self.conditions)
        self.cycle_runner = CycleRunner(self.cluster, plugins, actions, metrics.stopwatch)
        self.handovers = HandoverQueue(time.monotonic)
        self._overlaps = Overlaps(
            fenced, self.cluster, time.time, time.monotonic, self._recorder.overlapped, lambda: self.leadership.leads
        )
        self.writer = BindingWriter(client, self.cluster, time.time, time.monotonic, self.leadership.fence)
        self.writer.node_locks.listen(self.informer)
        self.binds = Binds(
            self.writer, self.cluster, self.handovers, self.cycle_runner.release, self, time.monotonic, binds_at_once
        )
        evictor = EvictionWriter(fenced, self.leadership.fence)
        self.evictions = Evictor(
            evictor,
            self.cycle_runner.nominations,
            self._recorder,
            self._give_up,
            self._triggers.room_came_free,
            time.monotonic,
        )
        self._stale = StaleGangs(fenced, self.cluster, self._changed.set, self.leadership.fence)
        self.ready = asyncio.Event()
        """Set once the informer has synced and the cluster's state has settled."""
        self.cycles = 0

    def configure(self, plugins: Sequence[Plugin], actions: Sequence[Action]) -> None:
        """Use these from the next cycle on; SessionError if they cannot be opened, and the old ones stay."""
        self.cycle_runner.configure(plugins, actions, time.time())
        self._triggers.room_came_free()

    def snapshot(self) -> list[Any]:
        """Every object that decisions depend on, as it is now."""
        return collect(self.cluster, self._triggers.others(), self.cycle_runner.placed, time.time())

    async def run(self, *besides: Coroutine[Any, Any, None]) -> None:
        """Schedule until cancelled, and run `besides` at the same time."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (self._follow(), self.events.run(), self.conditions.run(), self.binds.run()):
                    tasks.create_task(work)
                for work in (
                    self.podgroup_statuses.run(),
                    self.queue_statuses.run(),
                    self.leadership.run(),
                    self._overlaps.run(),
                ):
                    tasks.create_task(work)
                for work in (self.evictions.run(), self._stale.run(), self._decide(), self.problems.run(), *besides):
                    tasks.create_task(work)
        finally:
            self.cycle_runner.close()

    async def stop(self) -> None:
        """Stop deciding and let begun writes end; cancel `run` after that."""
        await self.leadership.resign()

    async def _decide(self) -> None:
        """Run a cycle for each burst of changes, then leave other tasks as much time as it took, up to 0.25 s."""
        await self.informer.synced.wait()
        self.cluster.settle()
        gc.collect()
        gc.freeze()
        self.ready.set()
        self._overlaps.is_settled = True
        log.info("synced: %d nodes, %d pods", len(self.cluster.nodes), len(self.cluster.pods()))
        while True:
            await self._changed.wait()
            await self.leadership.until_leading()
            self._changed.clear()
            started = time.monotonic()
            self._cycle()
            took = time.monotonic() - started
            self._metrics.cycle_seconds.observe(took)
            self._cycle_limit.adapt(took)
            await asyncio.sleep(min(took, LONGEST_REST))

    def _cycle(self) -> None:
        self.cycles += 1
        cycle = self.cycle_runner.run(self._cycle_limit.next(self.cluster.waiting), time.time())
        if self._cycle_limit.is_partial:
            self._changed.set()
        self.unschedulable.add(cycle.waiting)
        for decision in cycle.placed:
            self.unschedulable.remove(decision.task.key)
            self.conditions.forget(decision.task.key)
            if self.unschedulable.retry_with_rules(decision.task):
                self._changed.set()
        self.binds.add(cycle.placed)
        self.evictions.add(cycle.plans)
        if self.cycle_runner.nominations.void():
            self._changed.set()
        self._stale.update(cycle.stale, time.time())
        messages = Messages(cycle.waits, self._unreadable.about)
        waiting = [(decision, messages.why_not(decision)) for decision in cycle.waiting]
        for plan, decision in self.cycle_runner.nominations.nominated():
            self.unschedulable.remove(decision.task.key)
            waiting.append((decision, plan.why_not(decision)))
        for decision, why in waiting:
            self._recorder.unschedulable(decision, why)
        self.podgroup_statuses.cycle(cycle.enqueued, cycle.placed, waiting)

    # -- leading

    async def _follow(self) -> None:
        """Run the informer, after the Lease was read: what is listed while holding it need not be listed again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK):
                await self.leadership.has_observed.wait()
        await self.informer.run()

    async def _prepare(self) -> None:
        """Read what the last leader wrote before it stopped."""
        await self.ready.wait()
        if self._is_elected and self.informer.began < self.leadership.acquired_at:
            await self.informer.refresh()

    def _begin(self) -> None:
        self._metrics.leader_acquisitions.inc()
        self._triggers.room_came_free()

    def _cease(self) -> None:
        """Give up all places: another replica may give them to other pods now."""
        self.binds.cease()
        self.cycle_runner.cease(time.time())
        self.conditions.forget_all()
        self.podgroup_statuses.forget_written()
        self.queue_statuses.forget_written()

    def _is_idle(self) -> bool:
        return self.binds.is_idle and not self._fenced.unanswered

    # -- outcomes of binds and evictions

    def bound(self, decision: Decision, seconds: float) -> None:
        self._recorder.bound(decision, seconds)

    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """The places are free for other pods at once; the released pods back off."""
        self._back_off(released)
        self._recorder.not_bound(decision, why, released)

    def _give_up(self, plan: EvictionPlan, why: str, refused: Sequence[Victim]) -> None:
        """End a plan whose victims stay: its pods lose their nominations and are decided about anew."""
        tasks = self.cycle_runner.give_up(plan, refused, time.time())
        if refused:
            asyncio.get_running_loop().call_later(STAY_SECONDS + 0.01, self._triggers.room_came_free)
        if tasks:
            self._back_off([task.key for task in tasks])
            self._recorder.not_evicted(tasks, why)

    def _back_off(self, released: Sequence[str]) -> None:
        backoff = self.unschedulable.back_off(released)
        asyncio.get_running_loop().call_later(backoff + 0.01, self._end_backoffs)
        self._triggers.room_came_free()

    def _end_backoffs(self) -> None:
        if self.unschedulable.end_backoffs():
            self._changed.set()

    # -- changes from the informer

    def _seen(self, _pods: WatchedKind, changes: Sequence[Change]) -> None:
        for change in changes:
            self.handovers.seen(change.key, change.object, change.is_gone)
            if change.is_gone:
                self.conditions.forget(change.key)
                self.events.forget(change.key)
        self._overlaps.seen(changes)
