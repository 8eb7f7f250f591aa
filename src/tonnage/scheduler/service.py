"""SchedulerService: everything that runs in `tonnage scheduler`: the informer, cycles, binds, evictions and statuses.

All that touches the cluster's state runs on one event loop. A cycle decides about the pending pods in one go and
reserves their places; other tasks write Bindings, Evictions and statuses, so the next cycle does not wait for them.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from tonnage.binder.binding import BindingWriter
from tonnage.binder.handover import GuessingPlugins, HandoverQueue
from tonnage.binder.overlaps import Overlaps
from tonnage.binder.volumes import SECONDS as VOLUME_SECONDS
from tonnage.binder.volumes import VolumeBinder
from tonnage.binder.volumewriter import VolumeWriter
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import PodStatus
from tonnage.devices.base import Vendor
from tonnage.framework.action import Action
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.kube.client import Client
from tonnage.kube.firstlists import FirstLists
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import PODS, WatchedKind, batch_kinds
from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.fence import FencedClient
from tonnage.kube.leaderelection.leaderelector import LeaderElector
from tonnage.kube.leaderelection.leadership import Leadership
from tonnage.kube.resource import Change
from tonnage.kube.supervision import Patience, failed, keep_running
from tonnage.kube.watch import Backoff
from tonnage.observability.events import EventRecorder
from tonnage.scheduler.binds import AT_ONCE, Binds
from tonnage.scheduler.conditions import Conditions
from tonnage.scheduler.cyclelimit import FIRST, CycleLimit
from tonnage.scheduler.cyclerunner import CycleOutcome, CycleRunner, Either
from tonnage.scheduler.evictions.evictor import EVICTED, Evictor
from tonnage.scheduler.evictions.plans import EvictionPlan, Victim
from tonnage.scheduler.evictions.writer import EvictionWriter
from tonnage.scheduler.groupwait import SECONDS as GROUP_WAIT_SECONDS
from tonnage.scheduler.groupwait import GroupWait
from tonnage.scheduler.messages import Messages
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.nominations import STAY_SECONDS
from tonnage.scheduler.problems import Problems, Unreadable
from tonnage.scheduler.recorder import SchedulerRecorder
from tonnage.scheduler.settling import SECONDS as SETTLING_SECONDS
from tonnage.scheduler.settling import Settling
from tonnage.scheduler.snapshot import collect
from tonnage.scheduler.status.defaultqueues import DefaultQueues
from tonnage.scheduler.status.grouptimestamps import GroupTimestamps
from tonnage.scheduler.status.podgroups import PodGroupStatuses
from tonnage.scheduler.status.queues import QueueStatuses
from tonnage.scheduler.triggers import Triggers
from tonnage.scheduler.unschedulable import UnschedulablePods

log = logging.getLogger(__name__)

LONGEST_REST = 0.25
"""The longest pause between cycles, in seconds: pods of high priority may have come meanwhile."""

SHORTEST_DELAY = 1.0
"""The shortest time after which pods are retried because a delay is over, in seconds."""
_PLUGINS_PERIOD = 1.0
"""Seconds between looks at nodes whose device plugin is silent or busy."""
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
        group_wait: float = GROUP_WAIT_SECONDS,
        volume_timeout: float = VOLUME_SECONDS,
        first_lists: FirstLists | None = None,
    ) -> None:
        self.cluster = Cluster(vendors)
        self.unschedulable = UnschedulablePods(time.monotonic)
        self._changed = asyncio.Event()
        self._triggers = Triggers(scheduler_name, self.unschedulable, self._changed.set)
        self.cluster.is_ours = self._triggers.is_ours
        self._first_lists = first_lists
        self.informer = ClusterInformer(
            client, self.cluster, backoff, batch_kinds(self._triggers.is_ours), first_lists=first_lists
        )
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
            fenced, self.cluster, self._triggers.is_ours, time.time, self.leadership.leading, tell=self.events.record
        )
        self.queue_statuses = QueueStatuses(fenced, self.cluster, self.leadership.leading)
        self._default_queues = DefaultQueues(fenced, self.cluster, self.informer.has_listed, self.leadership.leading)
        self.podgroup_statuses.listen(self.informer)
        self.queue_statuses.listen(self.informer)
        self.recorder = SchedulerRecorder(metrics, self.events, self.conditions, self.podgroup_statuses.ref)
        self.group_wait = GroupWait(
            self.cluster,
            self._triggers.is_ours,
            self.informer.has_listed,
            self.recorder.group_came_late,
            time.monotonic,
            group_wait,
        )
        self.cycle_runner = CycleRunner(self.cluster, plugins, actions, metrics.stopwatch)
        self._cycle_limit = CycleLimit(
            Either(self.unschedulable, self.cycle_runner.set_aside), queue_of=self.cluster.groups.queue_of, first=FIRST
        )
        self.handovers = HandoverQueue(time.monotonic, GuessingPlugins(self.cluster))
        self._overlaps = Overlaps(
            fenced, self.cluster, time.monotonic, self.recorder.overlapped, lambda: self.leadership.leads
        )
        self.writer = BindingWriter(client, self.cluster, time.time, time.monotonic, self.leadership.fence)
        self.writer.node_locks.listen(self.informer)
        volumes = VolumeBinder(VolumeWriter(fenced), self.cluster, volume_timeout)
        volumes.listen(self.informer)
        self.binds = Binds(
            self.writer,
            self.cluster,
            self.handovers,
            volumes,
            self.cycle_runner.release,
            self,
            time.monotonic,
            binds_at_once,
        )
        evictor = EvictionWriter(fenced, self.leadership.fence)
        self.evictions = Evictor(
            evictor,
            self.cycle_runner.nominations,
            self,
            self._give_up,
            self._triggers.room_came_free,
            time.monotonic,
            look_again=lambda pod: self._mend([pod]),
        )
        self._settling = Settling(time.monotonic)
        self._group_times = GroupTimestamps(fenced, self.cluster, self._changed.set, self.leadership.fence)
        self.ready = asyncio.Event()
        """Set once the informer has synced and the cluster's state has settled."""
        self.has_started = asyncio.Event()
        """Set once the pods that were pending at the start have been decided about and bound."""
        self.cycles = 0
        self._patience = Patience("cycles")
        self._alarm: asyncio.TimerHandle | None = None
        """Set while something is set aside."""
        self._settled: asyncio.TimerHandle | None = None
        """Set while something is not told yet."""
        self._retry_at: float | None = None
        """When pods are retried because a delay or a minimum runtime is over, in seconds since 1970."""

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
                for name, loop in {
                    "informer": self._follow,
                    "events": self.events.run,
                    "conditions": self.conditions.run,
                    "podgroup status": self.podgroup_statuses.run,
                    "queue status": self.queue_statuses.run,
                    "default queues": self._default_queues.run,
                    "overlaps": self._overlaps.run,
                    "group times": self._group_times.run,
                    "problems": self.problems.run,
                    "device plugins": self._watch_device_plugins,
                }.items():
                    tasks.create_task(keep_running(name, loop))
                # Cycles and binds contain failures themselves. A replica that fails to lead ends, so that another does.
                for work in (self.binds.run(), self.evictions.run(), self.leadership.run(), self._decide(), *besides):
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
        if self.group_wait.settle():
            self._end_group_waits_later()
        gc.collect()
        gc.freeze()
        self.ready.set()
        self.cluster.claims.is_settled = True
        self._overlaps.settle()
        log.info("synced: %d nodes, %d pods", len(self.cluster.nodes), len(self.cluster.pods()))
        while True:
            await self._changed.wait()
            await self.leadership.until_leading()
            self._changed.clear()
            started = time.monotonic()
            pause = self._try_cycle()
            took = time.monotonic() - started
            self._metrics.cycle_seconds.observe(took)
            self._cycle_limit.adapt(took)
            if self._first_lists is not None:
                self._first_lists.begin_watches()
            self._note_start()
            await asyncio.sleep(max(pause, min(took, LONGEST_REST)))

    def _try_cycle(self) -> float:
        """Run a cycle; for how long to pause after a failure. GaveUpError after too many without a complete cycle."""
        self.cycles += 1
        self._update_device_plugins()
        pause = 0.0
        try:
            passed_over = self._cycle_limit.next(self.cluster.waiting)
            cycle = self.cycle_runner.run(passed_over, time.time(), self._cycle_limit.cut_queues)
            self._patience.succeeded()
        except Exception as error:
            failed("cycle", error)
            self._changed.set()
            pause = self._patience.failed(error)
        else:
            self._carry_out(cycle)
        for failure in self.cycle_runner.take_failed():
            for task in failure.job.tasks_that(PodStatus.WAITING):
                self.recorder.failed(task, failure.message)
        self._set_alarm()
        return pause

    def _set_alarm(self) -> None:
        """Run a cycle when the next job that was set aside comes back."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        back = self.cycle_runner.set_aside.next_return()
        if back is not None:
            wait = max(back - time.time(), 0.0) + 0.01
            self._alarm = asyncio.get_running_loop().call_later(wait, self._come_back)

    def _retry_when_over(self, when: float | None) -> None:
        """Retry pods at a time at which a delay or a minimum runtime is over."""
        if when is None or (self._retry_at is not None and self._retry_at <= when):
            return
        self._retry_at = when
        wait = max(when - time.time(), SHORTEST_DELAY) + 0.01
        asyncio.get_running_loop().call_later(wait, self._delay_is_over)

    def _delay_is_over(self) -> None:
        self._retry_at = None
        self._triggers.room_came_free()

    def _come_back(self) -> None:
        if self.cycle_runner.set_aside.actions:
            # It may do something for pods that found no place without it.
            self.unschedulable.retry_all()
        self._changed.set()

    def _carry_out(self, cycle: CycleOutcome) -> None:
        """Bind and evict as decided, then tell of it: what cannot be told does not keep pods from being bound."""
        if self._cycle_limit.is_partial:
            self._changed.set()
        self._retry_when_over(cycle.next_change)
        self.binds.add(cycle.placed)
        try:
            self.evictions.add(cycle.plans)
        except Exception as error:
            failed("eviction", error)
            for plan in cycle.plans:
                self._give_up(plan, "the evictions failed; the log says why", ())
        try:
            self._tell(cycle)
        except Exception as error:
            failed("cycle outcome", error)

    def _tell(self, cycle: CycleOutcome) -> None:
        self.unschedulable.add(cycle.waiting)
        for job in cycle.unfinished():
            self.unschedulable.retry_job(job)
            self._changed.set()
        # Nobody leaves for a pod that has found a place and waits for nobody, so no change would retry it.
        stuck = [one.task.key for one in cycle.waiting if one.node is not None and not one.waits_for]
        for key in stuck:
            self.unschedulable.remove(key)
            self._back_off_alone([key])
        for decision in cycle.placed:
            self.unschedulable.remove(decision.task.key)
            self.conditions.forget(decision.task.key)
            self._settling.forget(decision.task.key)
            if self.unschedulable.retry_with_rules(decision.task):
                self._changed.set()
        if self.cycle_runner.nominations.void():
            self._changed.set()
        self._group_times.update(cycle.stale, time.time())
        messages = Messages(cycle.waits, self._unreadable.about)
        waiting = [(decision, messages.why_not(decision)) for decision in cycle.waiting]
        for plan, decision in self.cycle_runner.nominations.nominated():
            self.unschedulable.remove(decision.task.key)
            waiting.append((decision, plan.why_not(decision)))
        now = self._settling.sift(waiting)
        self._tell_waiting(now)
        self.podgroup_statuses.cycle(cycle.enqueued, cycle.placed, now, cycle.refused)
        self._tell_settled_later()

    def _tell_waiting(self, waiting: Iterable[tuple[Decision, str]]) -> None:
        for decision, why in waiting:
            self.recorder.unschedulable(decision, why)

    def _tell_settled_later(self) -> None:
        if self._settling and self._settled is None:
            self._settled = asyncio.get_running_loop().call_later(SETTLING_SECONDS, self._tell_settled)

    def _tell_settled(self) -> None:
        """Tell what is still missing of jobs."""
        self._settled = None
        waiting = self._settling.due(self.unschedulable)
        self._tell_waiting(waiting)
        self.podgroup_statuses.waits(waiting)
        self._tell_settled_later()

    # -- leading

    async def _follow(self) -> None:
        """Run the informer, after the Lease was read: what is listed while holding it need not be listed again."""
        if self._first_lists is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK):
                    await self.leadership.has_observed.wait()
        await self.informer.run()

    async def _prepare(self) -> None:
        """Read what the last leader wrote before it stopped."""
        await self.ready.wait()
        if self._is_elected and self.informer.began < self.leadership.sole_since:
            await self.informer.refresh()

    def _begin(self) -> None:
        self._metrics.leader_acquisitions.inc()
        self._mend(self.cluster.running)
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

    def evicted(self, victim: Victim, outcome: str) -> None:
        self.recorder.evicted(victim, outcome)
        if outcome == EVICTED:
            self._group_times.evicted(victim.job, time.time())

    def postponed(self, plan: EvictionPlan) -> None:
        self.recorder.postponed(plan)

    def bound(self, decision: Decision, seconds: float) -> None:
        self.recorder.bound(decision, seconds)
        self._note_start()

    def _note_start(self) -> None:
        if not self.has_started.is_set() and not self._cycle_limit.is_partial and not self.binds:
            self.has_started.set()

    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """The places are free for other pods at once; the released pods back off."""
        self._back_off(released)
        self.recorder.not_bound(decision, why, released)

    def node_busy(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """The places are free, and the next cycle decides about the released pods again."""
        self._update_device_plugins()
        self._triggers.room_came_free()
        self.recorder.node_busy(decision, why, released)

    def waits_for_volume(self, decision: Decision, why: str) -> None:
        self.recorder.waits_for_volume(decision, why)

    def _give_up(self, plan: EvictionPlan, why: str, refused: Sequence[Victim]) -> None:
        """End a plan whose victims stay: its pods lose their nominations and are decided about anew."""
        tasks = self.cycle_runner.give_up(plan, refused, time.time())
        if refused:
            asyncio.get_running_loop().call_later(STAY_SECONDS + 0.01, self._triggers.room_came_free)
        if tasks:
            self._back_off([task.key for task in tasks])
            self.recorder.not_evicted(tasks, why)

    def _back_off(self, released: Sequence[str]) -> None:
        self._back_off_alone(released)
        self._triggers.room_came_free()

    def _back_off_alone(self, pods: Sequence[str]) -> None:
        backoff = self.unschedulable.back_off(pods)
        asyncio.get_running_loop().call_later(backoff + 0.01, self._end_backoffs)

    def _end_backoffs(self) -> None:
        if self.unschedulable.end_backoffs():
            self._changed.set()

    # -- pods that are held until their group is there

    def _end_group_waits_later(self) -> None:
        asyncio.get_running_loop().call_later(self.group_wait.seconds + 0.01, self._end_group_waits)

    def _end_group_waits(self) -> None:
        for pod in self.group_wait.end():
            self.unschedulable.retry_job(pod)
            self._changed.set()

    # -- device plugins

    async def _watch_device_plugins(self) -> None:
        """Notice what changes on such nodes without a change of a pod: 30 seconds are over."""
        while True:
            await asyncio.sleep(_PLUGINS_PERIOD)
            self._update_if_closed()

    def _update_if_closed(self) -> None:
        """Look at nodes that get no new pods; cycles find out themselves which others get none."""
        if self.cluster.device_plugins.are_closed:
            self._update_device_plugins()

    def _update_device_plugins(self) -> None:
        """Tell the cluster which nodes get no new pods because their device plugin is silent or busy.

        Pods that wait are tried again, or told the new reason.
        """
        if self.cluster.device_plugins.update(self.handovers.silent(), self.handovers.busy()):
            self._triggers.room_came_free()

    # -- changes from the informer

    def _seen(self, pods: WatchedKind, changes: Sequence[Change]) -> None:
        if self.group_wait.seen(pods, changes):
            self._end_group_waits_later()
        for change in changes:
            self.handovers.seen(change.key, change.object, change.is_gone)
            if change.is_gone:
                self.conditions.forget(change.key)
                self.events.forget(change.key)
                self._settling.forget(change.key)
        self._update_if_closed()
        self._mend([change.key for change in changes if not change.is_gone])
        self._overlaps.seen(changes)

    def _mend(self, pods: Iterable[str]) -> None:
        """Set right what a write has left in a pod's status that came true later than another one."""
        for key in pods if self.leadership.leading.is_set() else ():
            running, waiting = self.cluster.running.get(key), self.cluster.waiting.get(key)
            if running is not None and running.pod.status.says_unscheduled and self._triggers.is_ours(running.pod):
                self.conditions.set_scheduled(running)
            # The next cycle decides about the nominations of all other pending pods.
            elif waiting is not None and waiting.pod.status.nominatedNodeName and key in self.unschedulable:
                self.evictions.clear(waiting)
