"""Peers: the pods of the extender's replicas, with their addresses and the label that says which of them leads.

The label is HAMi's. Here it also carries a guarantee: a replica labels itself leader before it writes anything, and
follower only when all its writes have ended. So a new leader need not wait for an old one that is labelled follower.
"""

from typing import TypeVar

import msgspec

from tonnage.kube.client import MERGE_PATCH, Client, Query
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path, below
from tonnage.model.wire import WireError, decode

T = TypeVar("T")

ROLE = "hami.io/scheduler-role"
LEADER, FOLLOWER = "leader", "follower"
_NOT_FOUND = 404
_SECONDS = 5.0


class _Meta(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    name: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""


class _Spec(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    hostname: str | None = None
    node_name: str | None = None
    host_network: bool | None = None


class _Status(msgspec.Struct, gc=False, frozen=True):
    pod_ip: str | None = msgspec.field(default=None, name="podIP")


class Peer(msgspec.Struct, gc=False, frozen=True):
    """The pod of a replica."""

    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def role(self) -> str:
        return self.metadata.labels.get(ROLE, "")

    @property
    def address(self) -> str:
        """The pod's IP; empty if it has none yet."""
        return self.status.pod_ip or ""

    def is_called(self, host: str) -> bool:
        """Whether that is the host name inside the pod."""
        return host in (self.name, self.spec.hostname) or (bool(self.spec.host_network) and host == self.spec.node_name)


class _Peers(msgspec.Struct, gc=False, frozen=True):
    items: list[Peer] | None = None


class Peers:
    """Reads and labels the pods of the replicas in a namespace."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._path = api_path("v1", "namespaces", namespace, "pods")
        self.name = name
        """The pod of this replica."""

    async def all(self) -> list[Peer]:
        """Every pod with the label; KubeError if they cannot be read."""
        return (await self._read(self._path, _Peers, {"labelSelector": ROLE})).items or []

    async def own(self) -> Peer | None:
        """The pod of this replica, if there is one; KubeError if it cannot be read."""
        try:
            return await self._read(below(self._path, self.name), Peer)
        except StatusError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def label(self, peer: Peer, role: str) -> None:
        """Write the role of a pod; KubeError if that fails, or if the pod has changed since it was read.

        So a delayed write never overwrites a later one.
        """
        if peer.role != role:
            body = {"metadata": {"labels": {ROLE: role}, "resourceVersion": peer.metadata.resource_version}}
            path = below(self._path, peer.name)
            await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=_SECONDS)

    async def _read(self, path: str, kind: type[T], query: Query | None = None) -> T:
        try:
            return decode(await self._client.get(path, query, timeout=_SECONDS), kind)
        except WireError as error:
            raise KubeError(f"the pods of the replicas cannot be read: {error.path}: {error.message}") from error
