"""Bind: one write gives a pod its node and its devices.

A refusal that is certain frees the place at once. When the outcome is not known (time-out, reset, an error of the
server's) the write is repeated: it can only succeed once, and its answer then says what happened; until that is known
the place is kept.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task, containers_of
from tonnage.devices.base import Handover
from tonnage.extender.gates import ALLOCATING, BIND_PHASE, PENDING, Gates
from tonnage.extender.placing import Placing, Reservation, State
from tonnage.extender.protocol import BindArgs
from tonnage.framework.decision import Decision
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import ConnectionLostError, KubeError, StatusError
from tonnage.model.moment import rfc3339
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, decode

log = logging.getLogger(__name__)

NODE_ANNOTATION = "hami.io/vgpu-node"
TIME_ANNOTATION = "hami.io/vgpu-time"
BIND_TIME = "hami.io/bind-time"
LOCK = "hami.io/mutex.lock"
TURN_SECONDS = 28.0
"""How long a bind waits for its node: kube-scheduler gives its extender 30 seconds."""
_TRIES = 4
_WRITE_SECONDS = 10.0
_LATE_SECONDS = 10.0
"""How long a write without an answer may still take effect."""
_LONGEST_LABEL = 63
_LABELS_AT_ONCE = 2
_LABEL_PATIENCE = 0.5
_CONFLICT, _NOT_FOUND = 409, 404

REFUSED, FOUND_BOUND, FOUND_NOT_BOUND = "refused", "found bound", "found not bound"
TAKEN, TAKEN_OVER, NOT_TAKEN = "taken", "taken over", "not taken"

Fence = Callable[[], tuple[float, float]]
"""For how many seconds writes are still allowed, and the least for which one is begun."""


def always() -> tuple[float, float]:
    """Writes are always allowed."""
    return inf, 0.0


class BindError(Exception):
    """Why a pod was not bound, in words for kube-scheduler and its event."""


class Binder:
    """Binds pods whose place was decided."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        placing: Placing,
        gates: Gates,
        now: Callable[[], float],
        clock: Callable[[], float],
        turn_seconds: float = TURN_SECONDS,
        fence: Fence = always,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._placing = placing
        self._gates = gates
        self._now = now
        """Seconds since 1970, for what is written."""
        self._clock = clock
        """Seconds that never go back, for how long things take; the same that reservations expire by."""
        self._turn_seconds = turn_seconds
        self._fence = fence
        self._background: set[asyncio.Task[None]] = set()
        self.unanswered = 0
        """Writes that were begun and whose outcome is not known yet."""
        self._in_flight = 0
        self._labelling = asyncio.Semaphore(_LABELS_AT_ONCE)
        self.conflicts: Counter[str] = Counter()
        """Bindings that met a conflict, or whose outcome was not known, by what became of them."""
        self.locks: Counter[str] = Counter()
        """Locks of nodes that were written, by what became of that."""

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
        if reservation.state is not State.HELD:
            raise BindError(f"a bind of {args.key} to {reservation.node} is on its way already")
        reservation.state = State.BINDING
        task = reservation.task
        try:
            self._check(reservation)
            if not await self._gates.enter(args.node, task.key, self._turn_seconds):
                holder = self._gates.inside(args.node)
                raise BindError(f"{args.node} is busy: {holder} waits for its devices there")
        except (BindError, asyncio.CancelledError):
            self._placing.release(task.key)
            raise
        self.unanswered += 1
        try:
            # While the bind waited for its turn, the node or a card may have gone.
            self._check(reservation)
            await self._write(reservation)
        except BindError:
            self._give_up(reservation)
            raise
        finally:
            self.unanswered -= 1
        self._later(self._label(task, args.node))
        return reservation.decision

    def _check(self, reservation: Reservation) -> None:
        """BindError if the node or a card is not what it was when the place was decided."""
        obstacle = self._placing.obstacle(reservation)
        if obstacle:
            raise BindError(f"{reservation.task.key} is not bound, its place is free again: {obstacle}")

    async def close(self) -> None:
        """Wait for what goes on behind binds."""
        if self._background:
            await asyncio.wait(self._background, timeout=2)

    async def _reserved(self, args: BindArgs) -> Reservation:
        """The pod's place on that node; decided anew if there is none."""
        kept = self._placing.reservation(args.key, args.uid)
        if kept is not None and kept.node == args.node:
            return kept
        if kept is not None and kept.state is not State.HELD:
            raise BindError(f"a bind of {args.key} to {kept.node} is on its way already")
        pod = await self._pod(args)
        if args.node not in self._cluster.nodes:
            raise BindError(f"{args.key} is not bound: node {args.node} is not known")
        decision = self._placing.decide_on(pod, args.node, self._clock())
        reservation = self._placing.reservation(args.key, args.uid)
        if decision.node is None or reservation is None:
            raise BindError(f"{args.key} does not fit on {args.node}: {decision.why_not()}")
        return reservation

    async def _pod(self, args: BindArgs) -> Pod:
        waiting = self._cluster.waiting.get(args.key)
        if waiting is not None and (not args.uid or waiting.uid == args.uid):
            return waiting.pod
        try:
            pod = decode(await self._client.get(_path(args.namespace, args.name)), Pod)
        except (KubeError, WireError) as error:
            raise BindError(f"{args.key} cannot be read: {error}") from error
        if args.uid and pod.metadata.uid != args.uid:
            raise BindError(f"{args.key} is another pod now")
        if pod.node is not None:
            raise BindError(f"{args.key} is bound to {pod.node} already")
        return pod

    async def _write(self, reservation: Reservation) -> None:
        """BindError if the pod is certainly not bound; BindUnknownError if that is not known."""
        task, node = reservation.task, reservation.node
        if self._needs_lock(task, node):
            await self._lock(task, node, self._seconds_for(task))
        body = self._binding(reservation)
        failure: Exception | None = None
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(0.1 * 2**attempt)
            try:
                path, seconds = f"{_path(task.namespace, task.name)}/binding", self._seconds_for(task)
            except BindError:
                if failure is None:
                    raise
                break
            try:
                await self._client.request("POST", path, body=body, timeout=seconds)
                reservation.state = State.BOUND
                return
            except StatusError as error:
                # Once a try may have succeeded, a refusal of the next says nothing, unless the pod is gone.
                if error.is_definite and (failure is None or error.status == _NOT_FOUND):
                    self.conflicts[REFUSED] += error.status == _CONFLICT
                    raise BindError(f"the API server refuses to bind {task.key} to {node}: {error}") from error
                failure = error
                if error.status == _CONFLICT:
                    # That may have been the one that bound the pod.
                    break
            except ConnectionLostError as error:
                failure = error
        self.unanswered += 1
        self._later(self._find_out(reservation))
        # Not given up: the place is kept until it is known what happened.
        raise BindUnknownError(f"whether {task.key} is bound to {node} is not known yet: {failure}")

    def _seconds_for(self, task: Task) -> float:
        """How long a write may take; BindError if it must not be begun."""
        left, least = self._fence()
        if left < least:
            raise BindError(f"{task.key} is not bound: this replica leads no longer")
        return min(left, _WRITE_SECONDS)

    def _binding(self, reservation: Reservation) -> dict[str, Any]:
        task, decision = reservation.task, reservation.decision
        seconds = int(self._now())
        state = self._cluster.nodes.get(reservation.node)
        handover = Handover(
            node=reservation.node,
            devices={device.uuid: device for device in state.devices} if state is not None else {},
            containers=tuple([container for container, _ in containers_of(task.pod)]),
            now=seconds,
        )
        annotations = {
            NODE_ANNOTATION: reservation.node,
            TIME_ANNOTATION: str(seconds),
            BIND_PHASE: ALLOCATING,
            BIND_TIME: str(seconds),
        }
        for vendor, uses in decision.grant:
            annotations |= self._cluster.vendors[vendor].encode_pod(uses, handover)
        metadata = {"name": task.name, "namespace": task.namespace, "annotations": annotations}
        if task.uid:
            metadata["uid"] = task.uid
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": reservation.node},
        }

    # -- the node's lock

    def _needs_lock(self, task: Task, node: str) -> bool:
        """Whether the node's plugin could take another pod for this one."""
        state = self._cluster.nodes.get(node)
        if state is None:
            return False
        lock = state.node.annotations.get(LOCK, "")
        if lock and not lock.endswith(f",{task.namespace},{task.name}"):
            return True
        others = (self._cluster.running.get(key) for key in state.holdings if key != task.key)
        return any(o is not None and o.demands and o.pod.status.phase in (None, PENDING) for o in others)

    async def _lock(self, task: Task, node: str, seconds: float) -> None:
        stamp = rfc3339(self._now())
        body = {"metadata": {"annotations": {LOCK: f"{stamp},{task.namespace},{task.name}"}}}
        try:
            await self._client.request("PATCH", f"/api/v1/nodes/{node}", body=body, type_=MERGE_PATCH, timeout=seconds)
        except KubeError as error:
            self.locks[NOT_TAKEN] += 1
            raise BindError(f"the lock of {node} cannot be taken for {task.key}: {error}") from error
        state = self._cluster.nodes.get(node)
        is_free = state is None or not state.node.annotations.get(LOCK)
        self.locks[TAKEN if is_free else TAKEN_OVER] += 1

    # -- afterwards

    def _give_up(self, reservation: Reservation) -> None:
        """The pod is certainly not bound: its place is free, and the next one's turn comes."""
        self._placing.release(reservation.task.key)
        self._gates.leave(reservation.node, reservation.task.key)

    async def _find_out(self, reservation: Reservation) -> None:
        """Read the pod until it is certain whether it was bound."""
        try:
            await self._read_until_certain(reservation)
        finally:
            self.unanswered -= 1
        is_bound = reservation.state is State.BOUND or reservation.task.key in self._cluster.running
        self.conflicts[FOUND_BOUND if is_bound else FOUND_NOT_BOUND] += 1

    async def _read_until_certain(self, reservation: Reservation) -> None:
        task, delay, trusted = reservation.task, 0.5, self._clock() + _LATE_SECONDS
        while self._placing.reservation(task.key, task.uid) is reservation:
            await asyncio.sleep(delay)
            delay = min(delay * 2, 10.0)
            try:
                pod = decode(await self._client.get(_path(task.namespace, task.name)), Pod)
            except StatusError as error:
                if error.status == _NOT_FOUND:
                    self._give_up(reservation)
                    return
                continue
            except (KubeError, WireError):
                continue
            if pod.metadata.uid == task.uid and pod.node is not None:
                reservation.state = State.BOUND
                return
            if pod.metadata.uid != task.uid or self._clock() >= trusted:
                self._give_up(reservation)
                return

    async def _label(self, task: Task, node: str) -> None:
        """HAMi's monitor finds its pods by this label; nothing waits for it, so it lets binds go first."""
        if len(node) > _LONGEST_LABEL:
            return
        async with self._labelling:
            deadline = self._clock() + _LABEL_PATIENCE
            while self._in_flight and self._clock() < deadline:
                await asyncio.sleep(0.05)
            await self._write_label(task, node)

    async def _write_label(self, task: Task, node: str) -> None:
        body = {"metadata": {"uid": task.uid, "labels": {NODE_ANNOTATION: node}}}
        try:
            path = _path(task.namespace, task.name)
            await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=10)
        except KubeError as error:
            log.info("%s: the label %s could not be set: %s", task.key, NODE_ANNOTATION, error)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class BindUnknownError(Exception):
    """The outcome of a bind is not known; the pod's place is kept until it is."""


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace or 'default'}/pods/{name}"
