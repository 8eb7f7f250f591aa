"""PodBinder: the part of a bind that both servers share, from the pod's turn on its node to the known outcome.

A bind waits until no other pod is being handed its devices on the node, checks that the node and the cards are still
as they were decided, and writes the Binding. If the outcome of the write is unknown, the binder reads the pod until it
is known, and the server keeps the pod's reservation until then.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tonnage.binder.binding import BindError, BindingWriter, BindUnknownError, NodeBusyError
from tonnage.binder.handover import NODE_ANNOTATION, HandoverQueue
from tonnage.binder.preflight import preflight
from tonnage.cluster.cluster import Cluster
from tonnage.framework.decision import Decision
from tonnage.kube.errors import KubeError
from tonnage.kube.supervision import background, failed

log = logging.getLogger(__name__)

TURN_SECONDS = 28.0
"""How long a bind waits for its turn on the node: kube-scheduler gives its extender 30 seconds."""
_LABELS_AT_ONCE = 2
_PAUSE = 5.0


class PodBinder:
    """Writes Bindings of pods whose places are reserved."""

    def __init__(
        self,
        writer: BindingWriter,
        cluster: Cluster,
        handovers: HandoverQueue,
        clock: Callable[[], float],
        turn_seconds: float = TURN_SECONDS,
        label_patience: float = 0.0,
    ) -> None:
        self._writer = writer
        self._cluster = cluster
        self._handovers = handovers
        self._clock = clock
        """Seconds that never go back."""
        self._turn_seconds = turn_seconds
        self._label_patience = label_patience
        """Seconds for which a label gives way to binds."""
        self._labelling = asyncio.Semaphore(_LABELS_AT_ONCE)
        self._background: set[asyncio.Task[None]] = set()
        self.in_flight = 0
        """Binds that wait for their turn or for the API server."""
        self.unanswered = 0
        """Writes that were begun and whose outcome is unknown so far."""

    @property
    def behind(self) -> int:
        """How many labels and unknown outcomes are left of binds that were answered."""
        return len(self._background)

    async def wait_for_turn(self, decision: Decision) -> None:
        """Wait until the node's device plugin is free; NodeBusyError if that takes too long.

        The kubelet tells HAMi's plugins no pod's name, so each node hands devices to one pod at a time.
        """
        node = _node(decision)
        with self._counted():
            if not await self._handovers.acquire(node, decision.task.pod, self._turn_seconds):
                holder = self._handovers.holder(node)
                raise NodeBusyError(f"{node} is busy: {holder} waits for its devices there")

    def check(self, decision: Decision) -> None:
        """BindError if the node or a card is not what it was when the place was decided."""
        obstacle = preflight(self._cluster, decision)
        if obstacle:
            raise BindError(f"{decision.task.key} is not bound, its place is free again: {obstacle}", lasting=True)

    async def write(
        self,
        decision: Decision,
        is_reserved: Callable[[], bool],
        settle: Callable[[bool | None], None],
        handed_over: bool = True,
    ) -> None:
        """Check the place and write the Binding.

        BindError means that the pod is not bound: the caller writes again, or frees the place and leaves the node.
        BindUnknownError means that the outcome is unknown: `settle` is called with it once it is known, or with None
        if the pod's place is no longer reserved by then.
        """
        self.check(decision)
        is_over = True
        self.unanswered += 1
        try:
            with self._counted():
                await self._writer.write(decision, handed_over)
        except BindError:
            is_over = False
            raise
        except BindUnknownError:
            self.unanswered += 1
            self.later(self._find_out(decision, is_reserved, settle, handed_over))
            raise
        finally:
            self.unanswered -= 1
            if is_over:
                self._handovers.written(_node(decision), decision.task.pod)
        self._label_later(decision, handed_over)

    def leave(self, decision: Decision) -> None:
        """The pod is certainly not bound: the node's next pod gets its turn."""
        self._handovers.release(_node(decision), decision.task.pod)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, until `close`."""
        background("bind", work, self._background)

    async def close(self, seconds: float = 0.0) -> None:
        """Give the work in the background so long, then cancel it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._background:
                    await asyncio.wait(self._background)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _find_out(
        self,
        decision: Decision,
        is_reserved: Callable[[], bool],
        settle: Callable[[bool | None], None],
        handed_over: bool,
    ) -> None:
        try:
            is_bound = await self._is_bound(decision, is_reserved)
        finally:
            self.unanswered -= 1
        settle(is_bound)
        if is_bound:
            self._label_later(decision, handed_over)

    async def _is_bound(self, decision: Decision, is_reserved: Callable[[], bool]) -> bool | None:
        while True:
            try:
                return await self._writer.is_bound(decision.task, is_reserved)
            except Exception as error:
                # Nobody else finds out, and the place must be neither kept for ever nor given to another pod.
                failed("bind outcome", error)
                await asyncio.sleep(_PAUSE)

    def _label_later(self, decision: Decision, handed_over: bool) -> None:
        if handed_over:
            self.later(self._label(decision))

    async def _label(self, decision: Decision) -> None:
        """HAMi's monitor finds its pods by this label. Nothing waits for it, so it gives way to binds."""
        async with self._labelling:
            deadline = self._clock() + self._label_patience
            while self.in_flight and self._clock() < deadline:
                await asyncio.sleep(0.05)
            try:
                await self._writer.label(decision.task, _node(decision))
            except KubeError as error:
                log.info("%s: the label %s could not be set: %s", decision.task.key, NODE_ANNOTATION, error)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


def _node(decision: Decision) -> str:
    assert decision.node is not None
    return decision.node
