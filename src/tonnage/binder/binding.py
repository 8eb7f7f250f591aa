"""BindingWriter: the Binding, one write that gives a pod its node and its devices.

A write whose outcome is unknown (time-out, reset, an error of the server) is repeated: only one can succeed, and the
answer to the next then says what happened.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tonnage.binder.handover import BIND_TIME, NODE_ANNOTATION
from tonnage.binder.nodelocks import NodeLocks
from tonnage.cluster.cluster import Cluster, Grant
from tonnage.cluster.task import Task, containers_of
from tonnage.devices.base import PLAIN_MODE, Handover
from tonnage.framework.decision import Decision
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import ConnectionLostError, KubeError, StatusError, UnsentError
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.kube.paths import api_path
from tonnage.model.annotations import ALLOCATING, BIND_PHASE
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, decode

TIME_ANNOTATION = "hami.io/vgpu-time"
CONFLICT, NOT_FOUND = 409, 404
REFUSED, FOUND_BOUND, FOUND_NOT_BOUND = "refused", "found_bound", "found_not_bound"
_LONGEST_LABEL = 63
_TRIES = 4
_WRITE_SECONDS = 10.0
_LATE_SECONDS = 10.0
"""How long a write without an answer may still take effect, in seconds."""


class BindError(Exception):
    """Why a pod was not bound, in words for its Event."""

    def __init__(self, message: str, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting
        """Whether it makes no sense to repeat the bind: the pod is gone or has a node, or its place is lost."""


class NodeBusyError(BindError):
    """The pod's turn on its node did not come in time: the device plugin serves other pods there."""


class BindUnknownError(Exception):
    """The outcome of a bind is unknown; the pod's place must stay reserved until it is known."""


class BindingWriter:
    """Writes Bindings, with the locks, annotations and labels that HAMi's plugins need."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        now: Callable[[], float],
        clock: Callable[[], float],
        fence: Fence = always,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._now = now
        """Seconds since 1970, for what is written."""
        self._clock = clock
        """Seconds that never go back, for how long things take."""
        self._fence = fence
        self.conflicts: Counter[str] = Counter()
        """Bindings that met a conflict or whose outcome was unknown, by what was found in the end."""
        self.node_locks = NodeLocks(client, cluster, now)
        self.locks = self.node_locks.outcomes

    def is_handed_over(self, decision: Decision) -> bool:
        """Whether a device plugin must be told which cards the pod has; the kubelet chooses plain cards itself."""
        state = self._cluster.nodes.get(decision.node or "")
        uuids = [use.uuid for _, uses in decision.grant for container in uses for use in container]
        if state is None:
            return bool(uuids)
        positions = [state.positions.get(uuid) for uuid in uuids]
        return any(position is None or state.devices[position].mode != PLAIN_MODE for position in positions)

    async def write(self, decision: Decision, handed_over: bool = True) -> None:
        """BindError if the pod is certainly not bound; BindUnknownError if that is not known."""
        task, node = decision.task, decision.node
        assert node is not None
        locks = self.node_locks.needed(task, node) if handed_over else {}
        if locks:
            await self._lock(task, node, locks)
        body = self._binding(decision, node, handed_over)
        failure: Exception | None = None
        for attempt in range(_TRIES):
            if attempt:
                asked_for = failure.retry_after if isinstance(failure, StatusError) else 0.0
                await asyncio.sleep(max(0.1 * 2**attempt, asked_for))
            try:
                seconds = self._seconds_for(task)
            except BindError:
                if failure is None:
                    raise
                break
            try:
                path = pod_path(task.namespace, task.name, "binding")
                await self._client.request("POST", path, body=body, timeout=seconds)
                return
            except StatusError as error:
                # Once an attempt may have succeeded, a refusal of the next says nothing, unless the pod is gone.
                if error.is_definite and (failure is None or error.status == NOT_FOUND):
                    self.conflicts[REFUSED] += error.status == CONFLICT
                    message = f"the API server refuses to bind {task.key} to {node}: {error}"
                    raise BindError(message, error.status in (CONFLICT, NOT_FOUND)) from error
                failure = error
                if error.status == CONFLICT:
                    # An earlier attempt may have succeeded.
                    break
            except UnsentError as error:
                if failure is None:
                    raise BindError(f"{task.key} is not bound to {node}: {error}") from error
                failure = error
            except ConnectionLostError as error:
                failure = error
        raise BindUnknownError(f"whether {task.key} is bound to {node} is not known yet: {failure}")

    def _seconds_for(self, task: Task) -> float:
        """How long a write may take; BindError if this replica no longer leads."""
        left, least = self._fence()
        if left < least:
            raise BindError(f"{task.key} is not bound: this replica leads no longer")
        return min(left, _WRITE_SECONDS)

    async def _lock(self, task: Task, node: str, locks: Mapping[str, str]) -> None:
        try:
            await self.node_locks.take(locks, node, self._seconds_for(task))
        except KubeError as error:
            raise BindError(f"the lock of {node} cannot be taken for {task.key}: {error}") from error

    def _binding(self, decision: Decision, node: str, handed_over: bool) -> dict[str, Any]:
        task = decision.task
        seconds = int(self._now())
        # Words of a hand-over that a pod's author wrote would have a device plugin take it for another pod.
        annotations = {key: "" for key in (NODE_ANNOTATION, BIND_PHASE) if key in task.annotations}
        if handed_over:
            annotations = {
                NODE_ANNOTATION: node,
                TIME_ANNOTATION: str(seconds),
                BIND_PHASE: ALLOCATING,
                BIND_TIME: str(seconds),
            }
        if handed_over or _shares(task):
            annotations |= device_annotations(self._cluster, task, node, decision.grant, seconds)
        metadata: dict[str, Any] = {"name": task.name, "namespace": task.namespace, "annotations": annotations}
        if task.uid:
            metadata["uid"] = task.uid
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }

    # -- afterwards

    async def is_bound(self, task: Task, goes_on: Callable[[], bool]) -> bool | None:
        """Read a pod until it is certain whether it was bound; None once `goes_on` says that it does not matter."""
        is_bound = await self._find_out(task, goes_on)
        is_running = is_bound or task.key in self._cluster.running
        self.conflicts[FOUND_BOUND if is_running else FOUND_NOT_BOUND] += 1
        return is_bound

    async def _find_out(self, task: Task, goes_on: Callable[[], bool]) -> bool | None:
        delay, trusted = 0.5, self._clock() + _LATE_SECONDS
        while goes_on():
            await asyncio.sleep(delay)
            delay = min(delay * 2, 10.0)
            try:
                pod = decode(await self._client.get(pod_path(task.namespace, task.name)), Pod)
            except StatusError as error:
                if error.status == NOT_FOUND:
                    return False
                continue
            except (KubeError, WireError):
                continue
            if pod.metadata.uid == task.uid and pod.node is not None:
                return True
            if pod.metadata.uid != task.uid or self._clock() >= trusted:
                return False
        return None

    async def label(self, task: Task, node: str) -> None:
        """HAMi's monitor finds its pods by this label; KubeError if it cannot be set."""
        if len(node) > _LONGEST_LABEL:
            return
        body = {"metadata": {"uid": task.uid, "labels": {NODE_ANNOTATION: node}}}
        path = pod_path(task.namespace, task.name)
        await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=10)


def device_annotations(cluster: Cluster, task: Task, node: str, grant: Grant, seconds: int) -> dict[str, str]:
    """The annotations that say which devices of a node a pod has."""
    state = cluster.nodes.get(node)
    handover = Handover(
        node=node,
        devices={device.uuid: device for device in state.devices} if state is not None else {},
        containers=tuple([container for container, _ in containers_of(task.pod)]),
        now=seconds,
    )
    annotations: dict[str, str] = {}
    for vendor, uses in grant:
        annotations |= cluster.vendors[vendor].encode_pod(uses, handover)
    return annotations


def _shares(task: Task) -> bool:
    """Whether the pod has a share of a card, which the annotation must name on cards of any mode."""
    return any(request.shares for demand in task.demands for request in demand.requests)


def pod_path(namespace: str, name: str, *subresource: str) -> str:
    """The path of a pod in the API, or of a subresource of it."""
    return api_path("v1", "namespaces", namespace or "default", "pods", name, *subresource)
