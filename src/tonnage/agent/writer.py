"""The writer: what the agent tells the API server, in order and repeated until it is certain.

Nothing here is waited for by the kubelet. A write that the API server refuses for good, or whose pod is gone, is
dropped with a log line; any other failure is tried again, later each time.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from uuid import uuid4

from tonnage.agent.core.instructions import PatchNode, PatchPod, PostEvent, PostNodeEvent, ReleaseLock
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path
from tonnage.model.timestamp import rfc3339

log = logging.getLogger(__name__)

JSON_PATCH = "application/json-patch+json"
_FIRST, _LONGEST = 0.2, 30.0
_AT_ONCE = 3
"""Every connection to the API server costs about half a megabyte."""
_FINAL = frozenset((400, 404, 405, 413, 415, 422))
"""Answers after which the same request can never succeed. A conflict is none: another writer may have been quicker."""

Write = PatchPod | PatchNode | ReleaseLock | PostEvent | PostNodeEvent


class AgentWriter:
    """Carries writes out, a few at a time."""

    def __init__(
        self, client: Client, node: str, failed: Callable[[Write], None], is_here: Callable[[str], bool]
    ) -> None:
        self._client = client
        self._node = node
        self._failed = failed
        """Called with a write that was given up."""
        self._is_here = is_here
        """Whether a pod with that UID is on the node."""
        self._queue: asyncio.Queue[Write] = asyncio.Queue()

    def add(self, write: Write) -> None:
        """Write it soon."""
        self._queue.put_nowait(write)

    async def run(self) -> None:
        """Write without end."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._work())

    async def drained(self) -> None:
        """Wait until everything is written."""
        await self._queue.join()

    async def _work(self) -> None:
        while True:
            write = await self._queue.get()
            try:
                await self._until_certain(write)
            finally:
                self._queue.task_done()

    async def _until_certain(self, write: Write) -> None:
        pause = _FIRST
        while True:
            try:
                await self._send(write)
                return
            except StatusError as error:
                if error.status in _FINAL or not self._is_needed(write):
                    log.warning("%s was refused: %s", type(write).__name__, error)
                    self._failed(write)
                    return
                log.warning("%s failed and is repeated: %s", type(write).__name__, error)
            except KubeError as error:
                log.warning("%s failed and is repeated: %s", type(write).__name__, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _is_needed(self, write: Write) -> bool:
        return not isinstance(write, PatchPod) or self._is_here(write.uid)

    async def _send(self, write: Write) -> None:
        node = api_path("v1", "nodes", self._node)
        if isinstance(write, PatchPod):
            path = api_path("v1", "namespaces", write.namespace, "pods", write.name)
            # With the UID another pod of that name is a conflict.
            body: object = {"metadata": {"uid": write.uid, "annotations": write.annotations}}
            await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH)
        elif isinstance(write, PatchNode):
            body = {"metadata": {"annotations": write.annotations, "labels": write.labels}}
            await self._client.request("PATCH", node, body=body, type_=MERGE_PATCH)
        elif isinstance(write, ReleaseLock):
            place = "/metadata/annotations/hami.io~1mutex.lock"
            steps = [{"op": "test", "path": place, "value": write.value}, {"op": "remove", "path": place}]
            await self._client.request("PATCH", node, body=steps, type_=JSON_PATCH)
        elif isinstance(write, PostNodeEvent):
            # The kubelet names nodes so, and kubectl looks for that; Events of nodes are in this namespace.
            about = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._node}
            body = self._event(write, "default", about)
            await self._client.request("POST", api_path("v1", "namespaces", "default", "events"), body=body)
        else:
            pod = write.pod
            about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
            body = self._event(write, pod.namespace, about)
            await self._client.request("POST", api_path("v1", "namespaces", pod.namespace, "events"), body=body)

    def _event(self, write: PostEvent | PostNodeEvent, namespace: str, about: dict[str, str]) -> object:
        now = rfc3339(time.time())
        return {
            "metadata": {"name": f"{about['name'][:200]}.{uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": about,
            "reason": write.reason,
            "message": write.message[:1024],
            "type": "Warning",
            "source": {"component": "tonnage-agent", "host": self._node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
