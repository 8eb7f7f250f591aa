"""Binder: binds as kube-scheduler asks for them, on the places that `filter` reserved.

A bind is about the live pod, not about what a request said of it: the pod names our scheduler, is unbound, ungated and
not being deleted, and its node is known and not cordoned. A pod that asks for no device is bound plainly.

A refusal that is certain frees the place at once; while the outcome of the write is unknown, the place stays reserved.
"""

import asyncio
from collections.abc import Callable

from tonnage.binder.binder import TURN_SECONDS, PodBinder
from tonnage.binder.binding import NOT_FOUND, BindError, BindingWriter, pod_path
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.extender.protocol import BindArgs
from tonnage.extender.reservations import Reservation, Reservations, ReservationState, foreign_scheduler
from tonnage.framework.decision import Decision
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.model.excerpt import excerpt
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.selection import UNSCHEDULABLE, tolerates
from tonnage.model.wire import WireError, decode_object

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
        reservation = self._reserved(await self._bindable(args), args)
        reservation.state = ReservationState.BINDING
        decision = reservation.decision
        # Nothing is handed over to a pod that asks for no device, so it waits for nobody.
        handed_over = bool(decision.task.demands)
        try:
            self._binder.check(decision)
            if handed_over:
                await self._binder.wait_for_turn(decision)
        except (BindError, asyncio.CancelledError):
            self._release(reservation)
            raise
        try:
            self._check_again(reservation)
            await self._binder.write(
                decision,
                lambda: self._is_kept(reservation),
                lambda is_bound: self._settle(reservation, is_bound),
                handed_over,
            )
        except BindError:
            self._settle(reservation, False)
            raise
        reservation.state = ReservationState.BOUND
        return decision

    async def close(self) -> None:
        """Finish what binds have left to do."""
        await self._binder.close(_LAST_SECONDS)

    # -- whether the pod may be bound

    async def _bindable(self, args: BindArgs) -> Pod:
        """The live pod, which may be bound; BindError if it may not.

        What the watch shows counts if it allows the bind; before a refusal the pod is read, because kube-scheduler's
        watch may be ahead of ours.
        """
        self._check_is_held(args)
        shown = self._reservations.shown(args.key)
        if shown is not None and shown.uid == args.uid and not self._obstacle(shown.pod):
            return shown.pod
        pod = await self._read(args)
        obstacle = "it is another pod now" if pod.metadata.uid != args.uid else self._obstacle(pod)
        if obstacle:
            raise self._refused(args, obstacle)
        return pod

    async def _read(self, args: BindArgs) -> Pod:
        try:
            return decode_object(await self._client.get(pod_path(args.namespace, args.name)), Pod)
        except StatusError as error:
            if error.status == NOT_FOUND:
                raise self._refused(args, f"it is gone ({error})") from error
            raise BindError(f"{args.key} cannot be read: {error}") from error
        except (KubeError, WireError) as error:
            raise BindError(f"{args.key} cannot be read: {error}") from error

    def _obstacle(self, pod: Pod) -> str:
        return pod_obstacle(pod, self._reservations.scheduler_name)

    def _obstacle_on(self, node: str, pod: Pod) -> str:
        state = self._cluster.nodes.get(node)
        return f"node {node} is not known" if state is None else node_obstacle(pod, state.node)

    def _refused(self, args: BindArgs, obstacle: str) -> BindError:
        """The certain refusal of a bind; it frees the pod's place, unless another bind is on its way."""
        kept = self._reservations.reservation(args.key, args.uid)
        if kept is not None and kept.state is ReservationState.HELD:
            self._reservations.release(args.key)
        return BindError(f"{args.key} is not bound: {obstacle}")

    def _check_is_held(self, args: BindArgs) -> None:
        kept = self._reservations.reservation(args.key, args.uid)
        if kept is not None and kept.state is not ReservationState.HELD:
            raise BindError(f"a bind of {args.key} to {kept.node} is on its way already")

    def _check_again(self, reservation: Reservation) -> None:
        """BindError if the pod or the node has changed while the bind waited for its turn."""
        task = reservation.task
        if not self._is_kept(reservation):
            raise BindError(f"{task.key} is not bound: it is gone, or bound already")
        live = self._cluster.reserved[task.key]
        obstacle = self._obstacle(live.pod) or self._obstacle_on(reservation.node, live.pod)
        if not obstacle and not _asks_the_same(live, task):
            obstacle = "what it asks for has changed while it waited for its turn; it must be decided anew"
        if obstacle:
            raise BindError(f"{task.key} is not bound: {obstacle}")

    def _reserved(self, pod: Pod, args: BindArgs) -> Reservation:
        """The live pod's reservation on that node, newly decided if there is none for what the pod asks for."""
        # While the pod was read, another bind may have begun.
        self._check_is_held(args)
        obstacle = self._obstacle_on(args.node, pod)
        if obstacle:
            raise self._refused(args, obstacle)
        kept, live = self._reservations.reservation(args.key, args.uid), self._reservations.shown(args.key)
        if kept is not None and kept.node == args.node and live is not None and _asks_the_same(live, kept.task):
            return kept
        decision = self._reservations.decide_on(pod, args.node, self._clock())
        reservation = self._reservations.reservation(args.key, args.uid)
        if decision.node is None or reservation is None:
            raise BindError(f"{args.key} does not fit on {args.node}: {decision.why_not()}")
        return reservation

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


def pod_obstacle(pod: Pod, scheduler_name: str) -> str:
    """Why a pod must not be bound, whatever the node; empty if it may be."""
    if pod.node is not None:
        return f"it is bound to {pod.node} already"
    if pod.is_leaving or pod.is_over:
        return "it is being deleted" if pod.is_leaving else f"it has ended ({pod.status.phase})"
    if pod.spec.schedulingGates:
        gates = ", ".join(gate.name for gate in pod.spec.schedulingGates)
        return f"it has scheduling gates ({excerpt(gates)}); it can be bound once they are removed"
    foreign = foreign_scheduler(pod, scheduler_name)
    return f"it {foreign}" if foreign else ""


def node_obstacle(pod: Pod, node: Node) -> str:
    """Why a pod must not be bound to a node that kube-scheduler would not choose for it; empty if it may be."""
    if not node.spec.unschedulable or tolerates(pod.spec.tolerations or (), UNSCHEDULABLE):
        return ""
    return f"{node.name} is cordoned (spec.unschedulable), and the pod does not tolerate {UNSCHEDULABLE.key}"


def _asks_the_same(one: Task, other: Task) -> bool:
    return one is other or (one.demands, one.constraints, one.kinds) == (other.demands, other.constraints, other.kinds)
