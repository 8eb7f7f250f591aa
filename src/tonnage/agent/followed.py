"""The followed part of the cluster: the pods of the agent's node, and the node itself."""

import random
from collections.abc import Callable
from typing import Generic, TypeVar

from tonnage.agent.core.watchedpod import WatchedPod
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path
from tonnage.kube.resource import Resource
from tonnage.kube.watch import NOT_FOUND, Backoff, Reflector
from tonnage.model.node import Node
from tonnage.model.wire import WireError, decode_object

T = TypeVar("T", WatchedPod, Node)


class Follower(Generic[T]):
    """Lists and watches one resource and tells of every change."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        seen: Callable[[T], None],
        gone: Callable[[T], None],
        synced: Callable[[], None],
    ) -> None:
        self._reflector = Reflector(client, resource, Backoff(random.random))
        self._seen: Callable[[T], None] = seen
        self._gone: Callable[[T], None] = gone
        self._synced = synced
        self._known: dict[str, T] = {}

    async def run(self) -> None:
        """Follow without end."""
        async for batch in self._reflector.batches():
            for change in batch.changes:
                self._take(change.key, change.object, change.is_gone)
            if batch.listed is not None:
                for key in self._known.keys() - batch.listed:
                    self._take(key, None, is_gone=True)
                self._synced()

    def _take(self, key: str, thing: T | None, is_gone: bool) -> None:
        before = self._known.get(key)
        if is_gone:
            self._known.pop(key, None)
            if before is not None:
                self._gone(before)
        elif thing is not None:
            if before is not None and before.metadata.uid != thing.metadata.uid:
                self._gone(before)
            self._known[key] = thing
            self._seen(thing)


def pods_of(node: str) -> Resource:
    """The pods of a node."""
    return Resource("Pod", api_path("v1", "pods"), WatchedPod, fields=f"spec.nodeName={node}")


def node_called(name: str) -> Resource:
    """One node."""
    return Resource("Node", api_path("v1", "nodes"), Node, is_namespaced=False, fields=f"metadata.name={name}")


async def fetch(client: Client, key: str) -> WatchedPod | None:
    """A pod by name; None if there is none. KubeError if it cannot be had."""
    namespace, _, name = key.partition("/")
    try:
        return decode_object(await client.get(api_path("v1", "namespaces", namespace, "pods", name)), WatchedPod)
    except StatusError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    except WireError as error:
        raise KubeError(f"{key} cannot be read: {error.message}") from error
