"""Binds: the scheduler's queue of Bindings, written many at once, by priority.

A place stays reserved until the watch shows the pod with its node. A refused bind is repeated up to twice; then its
place is free again, and so are the places of the job's pods whose bind has not begun, if the job has too few pods
without it. Pods of the job that are bound by then stay bound, and later cycles complete the job.

A pod whose claims waited for it gets its volumes first, which may take minutes; other pods are bound meanwhile, but not
the pods of its job that need it to start. So no gang starts in pieces because a volume does not come.

A pod whose node's device plugin serves other pods keeps its place for 2 seconds; then it is decided about again, and
that node gets no new pods until nobody waits there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tonnage.binder.binder import PodBinder
from tonnage.binder.binding import BindError, BindingWriter, BindUnknownError, NodeBusyError
from tonnage.binder.handover import HandoverQueue
from tonnage.binder.volumes import VolumeBinder
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.framework.decision import Decision
from tonnage.kube.supervision import failed, keep_running

log = logging.getLogger(__name__)

AT_ONCE = 32
TRIES = 3
TURN_SECONDS = 2.0
"""How long a pod keeps its place on a node whose device plugin serves other pods."""
_PAUSE = 0.1
_NAME = "bind"


class Placement:
    """A decided pod until the outcome of its bind is known."""

    __slots__ = ("awaits_volumes", "begun", "decision", "handed_over", "is_let_go", "is_sent", "queued", "tries")

    def __init__(self, decision: Decision, handed_over: bool, queued: float) -> None:
        self.decision = decision
        self.handed_over = handed_over
        """Whether a device plugin is told which cards the pod has."""
        self.queued = queued
        self.awaits_volumes = False
        """Whether claims of the pod are being bound."""
        self.is_let_go = False
        """Whether neither its own volumes nor those of its job keep it any more."""
        self.begun = False
        self.is_sent = False
        """Whether the Binding was sent and its outcome is unknown so far."""
        self.tries = 0

    @property
    def key(self) -> str:
        return self.decision.task.key

    @property
    def node(self) -> str:
        assert self.decision.node is not None
        return self.decision.node


class Outcomes(Protocol):
    """Receives the outcome of each bind."""

    def bound(self, decision: Decision, seconds: float) -> None: ...

    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """The places of the released pods, this pod's included, are free again."""
        ...

    def node_busy(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """The same because the pod's turn on its node did not come: the released pods can be decided about at once."""
        ...

    def waits_for_volume(self, decision: Decision, why: str) -> None:
        """The pod has its place, and volumes are being bound that it needs, or its job."""
        ...


Tell = Callable[[Decision, str, Sequence[str]], None]
"""Takes a pod that is not bound, why, and the pods whose places are free again."""


class Binds:
    """Binds pods while `run` runs."""

    def __init__(
        self,
        writer: BindingWriter,
        cluster: Cluster,
        handovers: HandoverQueue,
        volumes: VolumeBinder,
        release: Callable[[str], None],
        outcomes: Outcomes,
        clock: Callable[[], float],
        at_once: int = AT_ONCE,
    ) -> None:
        self._writer = writer
        self._cluster = cluster
        self._binder = PodBinder(writer, cluster, handovers, clock, TURN_SECONDS)
        self._volumes = volumes
        self._release = release
        self._outcomes = outcomes
        self._clock = clock
        self._at_once = at_once
        self._queue: asyncio.PriorityQueue[tuple[int, int, Placement]] = asyncio.PriorityQueue()
        self._numbers = 0
        self._known: dict[str, Placement] = {}
        """Placements whose outcome is unknown so far, by pod."""
        self._awaiting: dict[str, set[str]] = {}
        """The pods whose claims are being bound, by job."""

    def __len__(self) -> int:
        """How many binds have no known outcome yet."""
        return len(self._known)

    def add(self, decisions: Iterable[Decision]) -> None:
        """Bind pods whose places are reserved."""
        now = self._clock()
        placements = [Placement(decision, False, now) for decision in decisions]
        self._known.update({placement.key: placement for placement in placements})
        for placement in placements:
            placement.awaits_volumes = self._volumes.is_needed(placement.decision)
            if placement.awaits_volumes:
                self._awaiting.setdefault(placement.decision.job.key, set()).add(placement.key)
        for placement in placements:
            # The pods of a job that was given up at one of its pods are not known any more.
            if self._known.get(placement.key) is not placement:
                continue
            if placement.awaits_volumes:
                self._binder.later(self._bind_volumes(placement))
            else:
                self._let_go(placement)

    # -- volumes

    async def _bind_volumes(self, placement: Placement) -> None:
        def tell(why: str) -> None:
            self._tell_of_volumes(placement, why)

        try:
            await self._volumes.bind(placement.decision, lambda: self._stands(placement), tell)
        except BindError as error:
            self._give_up(placement, str(error))
        except Exception as error:
            self._failed(placement, error)
        else:
            if not self._stands(placement):
                self._lost(placement)
                return
            self._has_volumes(placement)

    def _tell_of_volumes(self, placement: Placement, why: str) -> None:
        """Tell the pod what it waits for, and the pods of its job that wait with it."""
        self._outcomes.waits_for_volume(placement.decision, f"goes to {placement.node} once it has its volumes: {why}")
        for other in self._kept_back(placement.decision.job):
            missing = f"goes to {other.node} once {placement.key} has its volumes: {why}"
            self._outcomes.waits_for_volume(other.decision, missing)

    def _has_volumes(self, placement: Placement) -> None:
        self._stop_awaiting(placement)
        self._let_go(placement)
        for other in self._kept_back(placement.decision.job):
            self._let_go(other)

    def _stop_awaiting(self, placement: Placement) -> None:
        placement.awaits_volumes = False
        job = placement.decision.job.key
        pods = self._awaiting.get(job)
        if pods is not None:
            pods.discard(placement.key)
            if not pods:
                del self._awaiting[job]

    def _kept_back(self, job: Job) -> list[Placement]:
        """The pods of a job that wait for the volumes of others."""
        if job.group is None:
            return []
        known = [self._known[key] for key in sorted(job.tasks.keys() & self._known.keys())]
        return [one for one in known if not one.is_let_go and not one.awaits_volumes]

    def _let_go(self, placement: Placement) -> None:
        """Go on with the bind, unless the job cannot start without pods whose volumes are still being bound."""
        job = placement.decision.job
        awaiting = self._awaiting.get(job.key) if job.group is not None else None
        if awaiting is None or not job.lacking(without=awaiting):
            placement.is_let_go = True
            placement.queued = self._clock()
            self._begin(placement)

    def _lost(self, placement: Placement) -> None:
        """A pod lost its place while it waited: it is gone, or its job was given up."""
        if self._known.get(placement.key) is not placement:
            return
        self._end(placement)
        job = placement.decision.job
        kept_back = self._kept_back(job)
        if kept_back and job.lacking():
            self._give_up(kept_back[0], f"{placement.key} is gone, and {job.key} cannot start without it")
        else:
            for other in kept_back:
                self._let_go(other)

    # -- turns and writes

    def _begin(self, placement: Placement) -> None:
        try:
            placement.handed_over = self._writer.is_handed_over(placement.decision)
        except Exception as error:
            # A bug that one pod meets must not leave places reserved that nobody binds.
            self._failed(placement, error)
            return
        if placement.handed_over:
            self._binder.later(self._wait_for_turn(placement))
        else:
            self._enqueue(placement)

    @property
    def is_idle(self) -> bool:
        """Whether the outcome of every Binding that was sent is known."""
        return not self._binder.unanswered

    def cease(self) -> None:
        """Give up all places but those of Bindings that were sent, and do not send these again."""
        for placement in list(self._known.values()):
            if placement.is_sent:
                placement.tries = TRIES
                continue
            stood = self._stands(placement)
            self._end(placement, leave=True)
            if stood:
                self._release(placement.key)
        self._volumes.wake_all()

    async def run(self) -> None:
        """Write Bindings until cancelled."""
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._at_once):
                    workers.create_task(keep_running(_NAME, self._work))
        finally:
            await self._binder.close()

    def _enqueue(self, placement: Placement) -> None:
        self._numbers += 1
        self._queue.put_nowait((-placement.decision.job.priority, self._numbers, placement))

    async def _wait_for_turn(self, placement: Placement) -> None:
        try:
            await self._binder.wait_for_turn(placement.decision)
        except NodeBusyError as error:
            if self._stands(placement):
                self._give_up(placement, str(error), self._outcomes.node_busy)
            else:
                self._lost(placement)
        except Exception as error:
            self._failed(placement, error)
        else:
            self._enqueue(placement)

    async def _work(self) -> None:
        while True:
            _, _, placement = await self._queue.get()
            try:
                await self._bind(placement)
            except Exception as error:
                # A bug that one pod meets must not end the binds of all others.
                self._failed(placement, error)

    def _failed(self, placement: Placement, error: Exception) -> None:
        failed(_NAME, error)
        self._give_up(placement, "binding failed; the log says why")

    async def _bind(self, placement: Placement) -> None:
        if not self._stands(placement):
            self._end(placement, leave=True)
            return
        placement.begun = placement.is_sent = True
        try:
            await self._binder.write(
                placement.decision,
                lambda: self._stands(placement),
                lambda is_bound: self._settle(placement, is_bound),
                placement.handed_over,
            )
        except BindError as error:
            self._refused(placement, error)
        except BindUnknownError as error:
            log.warning("%s", error)
        else:
            self._succeed(placement)

    def _stands(self, placement: Placement) -> bool:
        """Whether the place is still reserved for the pod, which may have gone or lost it with its job."""
        reserved = self._cluster.reserved.get(placement.key)
        return (
            self._known.get(placement.key) is placement
            and reserved is not None
            and reserved.uid == placement.decision.task.uid
        )

    # -- outcomes

    def _succeed(self, placement: Placement) -> None:
        self._end(placement)
        self._outcomes.bound(placement.decision, self._clock() - placement.queued)

    def _refused(self, placement: Placement, error: BindError) -> None:
        placement.is_sent = False
        placement.tries += 1
        if error.lasting or placement.tries >= TRIES:
            self._give_up(placement, str(error))
            return
        pause = _PAUSE * 2**placement.tries
        asyncio.get_running_loop().call_later(pause, self._enqueue, placement)

    def _settle(self, placement: Placement, is_bound: bool | None) -> None:
        """The outcome of a write without an answer is known; None if the place was not the pod's any more."""
        if is_bound:
            self._succeed(placement)
        elif is_bound is not None:
            why = f"{placement.key} was not bound to {placement.node}: the API server gave no answer"
            self._give_up(placement, why)
        else:
            self._end(placement)

    def _give_up(self, placement: Placement, why: str, tell: Tell | None = None) -> None:
        """The pod is certainly not bound: free its place, and those of the pods that cannot start without it."""
        job = placement.decision.job
        released = [placement]
        stood = self._stands(placement)
        self._end(placement, leave=True)
        if stood:
            self._release(placement.key)
        if job.group is not None and job.lacking():
            others = [self._known[key] for key in sorted(job.tasks.keys() & self._known.keys())]
            for other in [other for other in others if not other.begun and self._stands(other)]:
                self._end(other, leave=True)
                self._release(other.key)
                released.append(other)
        for other in self._kept_back(job):
            self._let_go(other)
        (tell or self._outcomes.not_bound)(placement.decision, why, [one.key for one in released])

    def _end(self, placement: Placement, leave: bool = False) -> None:
        if self._known.get(placement.key) is placement:
            del self._known[placement.key]
            self._stop_awaiting(placement)
        if leave and placement.handed_over:
            self._binder.leave(placement.decision)
