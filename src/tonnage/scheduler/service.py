"""The batch scheduler of one cluster: the live picture, a cycle whenever something changed that matters, and binds.

Everything that touches the picture runs on one event loop. A cycle decides in one go about all pods that wait, and
reserves their places; writing is left to others, so that the next cycle need not wait for it.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from tonnage.binder.binding import BindingWriter
from tonnage.binder.handover import Gates
from tonnage.binder.overlaps import Overlaps
from tonnage.cluster.cluster import Cluster
from tonnage.devices.base import Vendor
from tonnage.framework.action import Action
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.kube.client import Client
from tonnage.kube.informer import PODS, Kind, Picture
from tonnage.kube.kinds import BATCH_KINDS
from tonnage.kube.leaderelection.callbacks import Duties
from tonnage.kube.leaderelection.fence import Fenced
from tonnage.kube.leaderelection.leaderelector import Keeper
from tonnage.kube.leaderelection.leadership import Leading
from tonnage.kube.resource import Change
from tonnage.kube.watch import Pace
from tonnage.observability.events import Events
from tonnage.scheduler.binds import AT_ONCE, Binds
from tonnage.scheduler.conditions import Conditions
from tonnage.scheduler.cyclelimit import Portions
from tonnage.scheduler.cyclerunner import Deciding
from tonnage.scheduler.evictions.evictor import Evictions
from tonnage.scheduler.evictions.plans import Plan, Victim
from tonnage.scheduler.evictions.writer import EvictionWriter
from tonnage.scheduler.messages import Sentences
from tonnage.scheduler.metrics import Metrics
from tonnage.scheduler.nominations import STAY_SECONDS
from tonnage.scheduler.problems import Problems
from tonnage.scheduler.recorder import Voice
from tonnage.scheduler.snapshot import collect
from tonnage.scheduler.status.podgroups import Statuses
from tonnage.scheduler.status.queues import QueueStatuses
from tonnage.scheduler.status.stalegangs import Stale
from tonnage.scheduler.triggers import Attention
from tonnage.scheduler.unreadable import Unreadable
from tonnage.scheduler.unschedulable import Backlog

log = logging.getLogger(__name__)

LONGEST_REST = 0.25
"""Seconds between cycles at most: important pods may have come meanwhile."""


_FIRST_LOOK = 1.0
"""Seconds that the first list waits for the first look at the Lease."""


class Service:
    """Schedules the pods that name it, while `run` runs."""

    def __init__(
        self,
        client: Client,
        vendors: Sequence[Vendor],
        plugins: Sequence[Plugin],
        actions: Sequence[Action],
        pace: Pace,
        metrics: Metrics,
        scheduler_name: str,
        binds_at_once: int = AT_ONCE,
        keeper: Keeper | None = None,
    ) -> None:
        self.cluster = Cluster(vendors)
        self.backlog = Backlog(time.monotonic)
        self._portions = Portions(self.backlog)
        self._changed = asyncio.Event()
        self._attention = Attention(scheduler_name, self.backlog, self._changed.set)
        self.picture = Picture(client, self.cluster, pace, self._attention.kinds(BATCH_KINDS))
        self.problems = Problems(self.cluster, self.picture.problems)
        self._unreadable = Unreadable(self.picture.problems, self._attention.room_came_free)
        self.picture.listeners += [self._seen, self._unreadable.seen]
        self._metrics = metrics
        self._is_elected = keeper is not None
        duties = Duties(self._prepare, self._begin, self._cease, self._is_idle)
        self.leading = Leading(keeper, duties)
        self._fenced = fenced = Fenced(client, self.leading.fence)
        self.events = Events(fenced, time.time, scheduler_name, metrics.event)
        self.conditions = Conditions(fenced, time.time)
        self.statuses = Statuses(fenced, self.cluster, self._attention.is_ours, time.time, self.leading.led)
        self.queue_statuses = QueueStatuses(fenced, self.cluster, self.leading.led)
        self.picture.listeners += [self.statuses.seen, self.queue_statuses.seen]
        self._voice = Voice(metrics, self.events, self.conditions)
        self.deciding = Deciding(self.cluster, plugins, actions, metrics.stopwatch)
        self.gates = Gates(time.monotonic)
        self._overlaps = Overlaps(
            fenced, self.cluster, time.time, time.monotonic, self._voice.overlapped, lambda: self.leading.leads
        )
        self.writer = BindingWriter(client, self.cluster, time.time, time.monotonic, self.leading.fence)
        self.picture.listeners.append(self.writer.node_locks.seen)
        self.binds = Binds(
            self.writer, self.cluster, self.gates, self.deciding.release, self, time.monotonic, binds_at_once
        )
        evictor = EvictionWriter(fenced, self.leading.fence)
        self.evictions = Evictions(
            evictor, self.deciding.promises, self._voice, self._give_up, self._attention.room_came_free, time.monotonic
        )
        self._stale = Stale(fenced, self.cluster, self._changed.set, self.leading.fence)
        self.ready = asyncio.Event()
        """Set once the picture is complete and nothing that takes long is left to do for it."""
        self.cycles = 0

    def configure(self, plugins: Sequence[Plugin], actions: Sequence[Action]) -> None:
        """Go by these from the next cycle on; SessionError if they cannot be opened, and all stays as it is."""
        self.deciding.configure(plugins, actions, time.time())
        self._attention.room_came_free()

    def snapshot(self) -> list[Any]:
        """Every object that decisions depend on, as it counts now."""
        return collect(self.cluster, self._attention.others(), self.deciding.placed, time.time())

    async def run(self, *besides: Coroutine[Any, Any, None]) -> None:
        """Schedule until cancelled, and do what else is to be done meanwhile."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (self._follow(), self.events.run(), self.conditions.run(), self.binds.run()):
                    tasks.create_task(work)
                for work in (self.statuses.run(), self.queue_statuses.run(), self.leading.run(), self._overlaps.run()):
                    tasks.create_task(work)
                for work in (self.evictions.run(), self._stale.run(), self._decide(), self.problems.run(), *besides):
                    tasks.create_task(work)
        finally:
            self.deciding.close()

    async def stop(self) -> None:
        """Decide nothing more and let writes that were begun end; `run` is to be cancelled then."""
        await self.leading.resign()

    async def _decide(self) -> None:
        """A cycle for each burst of changes; after it others have as much time as it took, up to a limit."""
        await self.picture.synced.wait()
        self.cluster.settle()
        gc.collect()
        gc.freeze()
        self.ready.set()
        self._overlaps.is_settled = True
        log.info("the picture is complete: %d nodes, %d pods", len(self.cluster.nodes), len(self.cluster.pods()))
        while True:
            await self._changed.wait()
            await self.leading.until_it_may_decide()
            self._changed.clear()
            started = time.monotonic()
            self._cycle()
            took = time.monotonic() - started
            self._metrics.cycle_seconds.observe(took)
            self._portions.took(took)
            await asyncio.sleep(min(took, LONGEST_REST))

    def _cycle(self) -> None:
        self.cycles += 1
        cycle = self.deciding.run(self._portions.next(self.cluster.waiting), time.time())
        if self._portions.is_partial:
            self._changed.set()
        self.backlog.found_nothing(cycle.waiting)
        for decision in cycle.placed:
            self.backlog.found_place(decision.task.key)
            self.conditions.forget(decision.task.key)
            if self.backlog.look_beside(decision.task):
                self._changed.set()
        self.binds.add(cycle.placed)
        self.evictions.add(cycle.plans)
        if self.deciding.promises.in_vain():
            self._changed.set()
        self._stale.tell(cycle.stale, time.time())
        sentences = Sentences(cycle.waits, self._unreadable.about)
        waiting = [(decision, sentences.why_not(decision)) for decision in cycle.waiting]
        for plan, decision in self.deciding.promises.promised():
            self.backlog.found_place(decision.task.key)
            waiting.append((decision, plan.why_not(decision)))
        for decision, why in waiting:
            self._voice.waits(decision, why)
        self.statuses.cycle(cycle.let_in, cycle.placed, waiting)

    # -- leading

    async def _follow(self) -> None:
        """Keep the picture; one that is begun while this process has the Lease need not be listed again to lead."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK):
                await self.leading.has_looked.wait()
        await self.picture.run()

    async def _prepare(self) -> None:
        """Get to know what whoever led before has written last."""
        await self.ready.wait()
        if self._is_elected and self.picture.began < self.leading.since:
            await self.picture.refresh()

    def _begin(self) -> None:
        self._metrics.takeovers.inc()
        self._attention.room_came_free()

    def _cease(self) -> None:
        """Another may give these places to others now."""
        self.binds.cease()
        self.deciding.cease(time.time())
        self.conditions.forget_all()
        self.statuses.forget_said()
        self.queue_statuses.forget_said()

    def _is_idle(self) -> bool:
        return self.binds.is_idle and not self._fenced.unanswered

    # -- told by binds

    def bound(self, decision: Decision, seconds: float) -> None:
        self._voice.bound(decision, seconds)

    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """Their places are free for others at once; they themselves are looked at after a pause."""
        self._pause(released)
        self._voice.not_bound(decision, why, released)

    def _give_up(self, plan: Plan, why: str, refused: Sequence[Victim]) -> None:
        """Told by evictions: somebody does not go, so the promised places are free and are decided about anew."""
        tasks = self.deciding.give_up(plan, refused, time.time())
        if refused:
            asyncio.get_running_loop().call_later(STAY_SECONDS + 0.01, self._attention.room_came_free)
        if tasks:
            self._pause([task.key for task in tasks])
            self._voice.not_evicted(tasks, why)

    def _pause(self, released: Sequence[str]) -> None:
        pause = self.backlog.failed(released)
        asyncio.get_running_loop().call_later(pause + 0.01, self._end_pauses)
        self._attention.room_came_free()

    def _end_pauses(self) -> None:
        if self.backlog.end_pauses():
            self._changed.set()

    # -- told by the picture

    def _seen(self, kind: Kind, changes: Sequence[Change]) -> None:
        if kind.resource.kind != PODS.resource.kind:
            return
        for change in changes:
            self.gates.seen(change.key, change.object, change.is_gone)
            if change.is_gone:
                self.conditions.forget(change.key)
                self.events.forget(change.key)
        self._overlaps.seen(changes)
