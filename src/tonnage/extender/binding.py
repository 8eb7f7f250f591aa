"""Bind, as kube-scheduler asks for it: a refusal that is certain frees the place at once.

While the outcome of the write is not known, the place is kept.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tonnage.binder.binding import (
    FOUND_BOUND,
    FOUND_NOT_BOUND,
    NODE_ANNOTATION,
    BindError,
    BindingWriter,
    BindUnknownError,
    pod_path,
)
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.extender.protocol import BindArgs
from tonnage.extender.reservations import Reservation, Reservations, ReservationState
from tonnage.framework.decision import Decision
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, decode

log = logging.getLogger(__name__)

TURN_SECONDS = 28.0
"""How long a bind waits for its node: kube-scheduler gives its extender 30 seconds."""
_LABELS_AT_ONCE = 2
_LABEL_PATIENCE = 0.5


class Binder:
    """Binds pods whose place was decided."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        reservations: Reservations,
        handovers: HandoverQueue,
        now: Callable[[], float],
        clock: Callable[[], float],
        turn_seconds: float = TURN_SECONDS,
        fence: Fence = always,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._reservations = reservations
        self._handovers = handovers
        self._writer = BindingWriter(client, cluster, now, clock, fence)
        self._clock = clock
        """Seconds that never go back, for how long things take; the same that reservations expire by."""
        self._turn_seconds = turn_seconds
        self._background: set[asyncio.Task[None]] = set()
        self.unanswered = 0
        """Writes that were begun and whose outcome is not known yet."""
        self._in_flight = 0
        self._labelling = asyncio.Semaphore(_LABELS_AT_ONCE)
        self.conflicts = self._writer.conflicts
        self.locks = self._writer.locks
        self.node_locks = self._writer.node_locks

    @property
    def in_flight(self) -> int:
        """How many binds wait for their turn or for the API server."""
        return self._in_flight

    @property
    def behind(self) -> int:
        """How many labels have to be written, and outcomes found out, behind binds that were answered."""
        return len(self._background)

    async def bind(self, args: BindArgs) -> Decision:
        """Write the Binding; BindError if the pod is not bound, BindUnknownError if that is not known."""
        self._in_flight += 1
        try:
            return await self._bind(args)
        finally:
            self._in_flight -= 1

    async def _bind(self, args: BindArgs) -> Decision:
        reservation = await self._reserved(args)
        if reservation.state is not ReservationState.HELD:
            raise BindError(f"a bind of {args.key} to {reservation.node} is on its way already")
        reservation.state = ReservationState.BINDING
        task = reservation.task
        try:
            self._check(reservation)
            if not await self._handovers.enter(args.node, task.pod, self._turn_seconds):
                holder = self._handovers.inside(args.node)
                raise BindError(f"{args.node} is busy: {holder} waits for its devices there")
        except (BindError, asyncio.CancelledError):
            self._release(reservation)
            raise
        self.unanswered += 1
        try:
            # While the bind waited for its turn, the pod, the node or a card may have gone.
            if not self._is_kept(reservation):
                raise BindError(f"{task.key} is not bound: it is gone, or bound already")
            self._check(reservation)
            await self._write(reservation)
        except BindError:
            self._give_up(reservation)
            raise
        finally:
            self.unanswered -= 1
            self._handovers.written(args.node, task.pod)
        self._later(self._label(task, args.node))
        return reservation.decision

    def _check(self, reservation: Reservation) -> None:
        """BindError if the node or a card is not what it was when the place was decided."""
        obstacle = self._reservations.preflight(reservation)
        if obstacle:
            raise BindError(f"{reservation.task.key} is not bound, its place is free again: {obstacle}")

    async def close(self) -> None:
        """Wait for what goes on behind binds."""
        if self._background:
            await asyncio.wait(self._background, timeout=2)

    async def _reserved(self, args: BindArgs) -> Reservation:
        """The pod's place on that node; decided anew if there is none."""
        kept = self._reservations.reservation(args.key, args.uid)
        if kept is not None and kept.node == args.node:
            return kept
        if kept is not None and kept.state is not ReservationState.HELD:
            raise BindError(f"a bind of {args.key} to {kept.node} is on its way already")
        pod = await self._pod(args)
        if args.node not in self._cluster.nodes:
            raise BindError(f"{args.key} is not bound: node {args.node} is not known")
        decision = self._reservations.decide_on(pod, args.node, self._clock())
        reservation = self._reservations.reservation(args.key, args.uid)
        if decision.node is None or reservation is None:
            raise BindError(f"{args.key} does not fit on {args.node}: {decision.why_not()}")
        return reservation

    async def _pod(self, args: BindArgs) -> Pod:
        waiting = self._cluster.waiting.get(args.key)
        if waiting is not None and (not args.uid or waiting.uid == args.uid):
            return waiting.pod
        try:
            pod = decode(await self._client.get(pod_path(args.namespace, args.name)), Pod)
        except (KubeError, WireError) as error:
            raise BindError(f"{args.key} cannot be read: {error}") from error
        if args.uid and pod.metadata.uid != args.uid:
            raise BindError(f"{args.key} is another pod now")
        if pod.node is not None:
            raise BindError(f"{args.key} is bound to {pod.node} already")
        return pod

    async def _write(self, reservation: Reservation) -> None:
        """BindError if the pod is certainly not bound; BindUnknownError if that is not known."""
        try:
            await self._writer.write(reservation.decision)
        except BindUnknownError:
            # Not given up: the place is kept until it is known what happened.
            self.unanswered += 1
            self._later(self._find_out(reservation))
            raise
        reservation.state = ReservationState.BOUND

    # -- afterwards

    def _give_up(self, reservation: Reservation) -> None:
        """The pod is certainly not bound: its place is free, and the next one's turn comes."""
        self._release(reservation)
        self._handovers.leave(reservation.node, reservation.task.pod)

    def _release(self, reservation: Reservation) -> None:
        """Free the place, unless another pod of the same name has one by now."""
        if self._is_kept(reservation):
            self._reservations.release(reservation.task.key)

    def _is_kept(self, reservation: Reservation) -> bool:
        task = reservation.task
        return self._reservations.reservation(task.key, task.uid) is reservation

    async def _find_out(self, reservation: Reservation) -> None:
        """Read the pod until it is certain whether it was bound."""
        task = reservation.task
        try:
            bound = await self._writer.is_bound(task, lambda: self._is_kept(reservation))
        finally:
            self.unanswered -= 1
        if bound:
            reservation.state = ReservationState.BOUND
        elif bound is not None:
            self._give_up(reservation)
        is_bound = reservation.state is ReservationState.BOUND or task.key in self._cluster.running
        self.conflicts[FOUND_BOUND if is_bound else FOUND_NOT_BOUND] += 1

    async def _label(self, task: Task, node: str) -> None:
        """HAMi's monitor finds its pods by this label; nothing waits for it, so it lets binds go first."""
        async with self._labelling:
            deadline = self._clock() + _LABEL_PATIENCE
            while self._in_flight and self._clock() < deadline:
                await asyncio.sleep(0.05)
            try:
                await self._writer.label(task, node)
            except KubeError as error:
                log.info("%s: the label %s could not be set: %s", task.key, NODE_ANNOTATION, error)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
