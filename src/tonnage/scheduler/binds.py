"""Binds on their way: many at once, the most important first, each with its place reserved until it is known.

A place stays reserved until the watch shows the pod with its node. A bind that is refused is tried a few times more;
then its place is free again, and so are the places of its job's pods whose bind has not begun, if the job has too few
pods without it. Pods of the job that are bound by then stay bound, and the job is completed as soon as it can be.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from tonnage.binder.binding import BindError, BindingWriter, BindUnknownError
from tonnage.binder.handover import HandoverQueue
from tonnage.binder.preflight import preflight
from tonnage.cluster.cluster import Cluster
from tonnage.framework.decision import Decision
from tonnage.kube.errors import KubeError

log = logging.getLogger(__name__)

AT_ONCE = 32
TURN_SECONDS = 28.0
"""How long a pod that shares cards waits for its node, while another one is handed its devices there."""
TRIES = 3
_PAUSE = 0.1
_LABELS_AT_ONCE = 2


class Placement:
    """A pod on its way to its node."""

    __slots__ = ("begun", "decision", "handed_over", "queued", "tries")

    def __init__(self, decision: Decision, handed_over: bool, queued: float) -> None:
        self.decision = decision
        self.handed_over = handed_over
        """Whether a device plugin is told which cards the pod has."""
        self.queued = queued
        self.begun = False
        self.tries = 0

    @property
    def key(self) -> str:
        return self.decision.task.key

    @property
    def node(self) -> str:
        assert self.decision.node is not None
        return self.decision.node


class Outcomes(Protocol):
    """Told what became of binds."""

    def bound(self, decision: Decision, seconds: float) -> None: ...

    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """The places of the released pods, this one among them, are free again."""
        ...


class Binds:
    """Binds pods while `run` runs."""

    def __init__(
        self,
        writer: BindingWriter,
        cluster: Cluster,
        handovers: HandoverQueue,
        release: Callable[[str], None],
        outcomes: Outcomes,
        clock: Callable[[], float],
        at_once: int = AT_ONCE,
    ) -> None:
        self._writer = writer
        self._cluster = cluster
        self._handovers = handovers
        self._release = release
        self._outcomes = outcomes
        self._clock = clock
        self._at_once = at_once
        self._queue: asyncio.PriorityQueue[tuple[int, int, Placement]] = asyncio.PriorityQueue()
        self._numbers = 0
        self._known: dict[str, Placement] = {}
        """Placements whose outcome is not known yet, by pod."""
        self._unanswered: set[Placement] = set()
        """Those whose Binding was sent, and of which is not known whether it is there."""
        self._background: set[asyncio.Task[None]] = set()
        self._labelling = asyncio.Semaphore(_LABELS_AT_ONCE)

    def __len__(self) -> int:
        """How many have not come to their end."""
        return len(self._known)

    def add(self, decisions: Iterable[Decision]) -> None:
        """Bind pods whose places are reserved."""
        now = self._clock()
        for decision in decisions:
            placement = Placement(decision, self._writer.is_handed_over(decision), now)
            self._known[placement.key] = placement
            if placement.handed_over:
                self._later(self._wait_for_turn(placement))
            else:
                self._enqueue(placement)

    @property
    def is_idle(self) -> bool:
        """Whether the outcome of every Binding that was sent is known."""
        return not self._unanswered

    def cease(self) -> None:
        """Give up all places but those of Bindings that were sent, and do not send these again."""
        for placement in list(self._known.values()):
            if placement in self._unanswered:
                placement.tries = TRIES
                continue
            stood = self._stands(placement)
            self._end(placement, leave=True)
            if stood:
                self._release(placement.key)

    async def run(self) -> None:
        """Write Bindings until cancelled."""
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._at_once):
                    workers.create_task(self._work())
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    def _enqueue(self, placement: Placement) -> None:
        self._numbers += 1
        self._queue.put_nowait((-placement.decision.job.priority, self._numbers, placement))

    async def _wait_for_turn(self, placement: Placement) -> None:
        """HAMi's plugins are told no pod's name, so that on each node one pod at a time is handed its devices."""
        if await self._handovers.enter(placement.node, placement.decision.task.pod, TURN_SECONDS):
            self._enqueue(placement)
        elif self._stands(placement):
            holder = self._handovers.inside(placement.node)
            self._give_up(placement, f"{placement.node} is busy: {holder} waits for its devices there")

    async def _work(self) -> None:
        while True:
            _, _, placement = await self._queue.get()
            try:
                await self._bind(placement)
            except Exception:
                # A mistake of ours about one pod must not end the binds of all others.
                log.exception("%s: binding failed", placement.key)
                self._give_up(placement, "binding failed; the log says why")

    async def _bind(self, placement: Placement) -> None:
        if not self._stands(placement):
            self._end(placement, leave=True)
            return
        against = preflight(self._cluster, placement.decision)
        if against:
            self._give_up(placement, f"{placement.key} is not bound, its place is free again: {against}")
            return
        placement.begun = True
        self._unanswered.add(placement)
        try:
            await self._writer.write(placement.decision, placement.handed_over)
        except BindError as error:
            self._refused(placement, error)
            return
        except BindUnknownError as error:
            log.warning("%s", error)
            self._later(self._find_out(placement))
        else:
            self._succeed(placement)
        self._handovers.written(placement.node, placement.decision.task.pod)

    def _stands(self, placement: Placement) -> bool:
        """Whether the place is still the pod's: it may have gone meanwhile, or been released with its job."""
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
        if placement.handed_over:
            self._later(self._label(placement))

    def _refused(self, placement: Placement, error: BindError) -> None:
        self._unanswered.discard(placement)
        placement.tries += 1
        if error.lasting or placement.tries >= TRIES:
            self._give_up(placement, str(error))
            return
        pause = _PAUSE * 2**placement.tries
        asyncio.get_running_loop().call_later(pause, self._enqueue, placement)

    async def _find_out(self, placement: Placement) -> None:
        bound = await self._writer.is_bound(placement.decision.task, lambda: self._stands(placement))
        if bound is False:
            self._give_up(
                placement, f"{placement.key} was not bound to {placement.node}: the API server gave no answer"
            )
        elif bound:
            self._succeed(placement)
        else:
            self._end(placement)

    def _give_up(self, placement: Placement, why: str) -> None:
        """The pod is certainly not bound: its place is free, and so are those of pods that cannot start without it."""
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
        self._outcomes.not_bound(placement.decision, why, [one.key for one in released])

    def _end(self, placement: Placement, leave: bool = False) -> None:
        self._unanswered.discard(placement)
        if self._known.get(placement.key) is placement:
            del self._known[placement.key]
        if leave and placement.handed_over:
            self._handovers.leave(placement.node, placement.decision.task.pod)

    # -- afterwards

    async def _label(self, placement: Placement) -> None:
        async with self._labelling:
            try:
                await self._writer.label(placement.decision.task, placement.node)
            except KubeError as error:
                log.info("%s: its label could not be set: %s", placement.key, error)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
