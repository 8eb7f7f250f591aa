"""Binder: binds as kube-scheduler asks for them, on the places that `filter` reserved.

A refusal that is certain frees the place at once; while the outcome of the write is unknown, the place stays reserved.
"""

import asyncio
from collections.abc import Callable

from tonnage.binder.binder import TURN_SECONDS, PodBinder
from tonnage.binder.binding import BindError, BindingWriter, pod_path
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.extender.protocol import BindArgs
from tonnage.extender.reservations import Reservation, Reservations, ReservationState
from tonnage.framework.decision import Decision
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, decode

_LABEL_PATIENCE = 0.5
_LAST_SECONDS = 2.0
"""How long `close` waits for labels and unknown outcomes."""


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
        self._clock = clock
        """Seconds that never go back; reservations expire by the same clock."""
        writer = BindingWriter(client, cluster, now, clock, fence)
        self._binder = PodBinder(writer, cluster, handovers, clock, turn_seconds, _LABEL_PATIENCE)
        self.conflicts = writer.conflicts
        self.locks = writer.locks
        self.node_locks = writer.node_locks

    @property
    def in_flight(self) -> int:
        """How many binds wait for their turn or for the API server."""
        return self._binder.in_flight

    @property
    def unanswered(self) -> int:
        """How many writes were begun and have no known outcome yet."""
        return self._binder.unanswered

    @property
    def behind(self) -> int:
        """How many labels and unknown outcomes are left of binds that were answered."""
        return self._binder.behind

    async def bind(self, args: BindArgs) -> Decision:
        """Write the Binding; BindError if the pod is not bound, BindUnknownError if that is not known."""
        reservation = await self._reserved(args)
        if reservation.state is not ReservationState.HELD:
            raise BindError(f"a bind of {args.key} to {reservation.node} is on its way already")
        reservation.state = ReservationState.BINDING
        decision = reservation.decision
        try:
            self._binder.check(decision)
            await self._binder.wait_for_turn(decision)
        except (BindError, asyncio.CancelledError):
            self._release(reservation)
            raise
        try:
            # While the bind waited for its turn, the pod may have gone, and so may the node or a card.
            if not self._is_kept(reservation):
                raise BindError(f"{args.key} is not bound: it is gone, or bound already")
            await self._binder.write(
                decision, lambda: self._is_kept(reservation), lambda is_bound: self._settle(reservation, is_bound)
            )
        except BindError:
            self._settle(reservation, False)
            raise
        reservation.state = ReservationState.BOUND
        return decision

    async def close(self) -> None:
        """Finish what binds have left to do."""
        await self._binder.close(_LAST_SECONDS)

    async def _reserved(self, args: BindArgs) -> Reservation:
        """The pod's reservation on that node, newly decided if there is none."""
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

    # -- afterwards

    def _settle(self, reservation: Reservation, is_bound: bool | None) -> None:
        """The outcome is known: the place is the pod's, or free; None if it was not the pod's any more."""
        if is_bound:
            reservation.state = ReservationState.BOUND
        elif is_bound is not None:
            self._release(reservation)
            self._binder.leave(reservation.decision)

    def _release(self, reservation: Reservation) -> None:
        """Free the place, unless another pod of the same name has one by now."""
        if self._is_kept(reservation):
            self._reservations.release(reservation.task.key)

    def _is_kept(self, reservation: Reservation) -> bool:
        task = reservation.task
        return self._reservations.reservation(task.key, task.uid) is reservation
