"""The Lease that candidates agree by, and its reads and writes on the API server.

Replicas read it again and again rather than watch it. An answer says how the Lease was after the question was asked; a
watch event may be of any age, so nobody could say until when a replica may act on it.
"""

import time

import msgspec

from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path, below
from tonnage.model.wire import WireError, decode

_NOT_FOUND = 404
_USUAL_DURATION = 15
"""kube-scheduler's own, in seconds."""


def since_boot() -> float:
    """A monotonic clock in seconds, which counts the time of a suspend too where the system can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Lease(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """The spec of a Lease; of one that does not exist, all fields are empty."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None

    @property
    def holder(self) -> str:
        """The holder's identity; empty if nobody holds the Lease."""
        return self.holder_identity or ""

    @property
    def duration(self) -> float:
        """Seconds without renewal after which others may acquire the Lease."""
        return float(self.lease_duration_seconds or _USUAL_DURATION)


class LeaseRecord(msgspec.Struct, gc=False, frozen=True):
    """A Lease with its resourceVersion, which is empty if the Lease does not exist."""

    lease: Lease = Lease()
    resource_version: str = ""


class _Meta(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct, gc=False, frozen=True):
    metadata: _Meta = _Meta()
    spec: Lease = Lease()


class LeaseStore:
    """One Lease on the API server."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._leases = api_path("coordination.k8s.io/v1", "namespaces", namespace, "leases")
        self._namespace = namespace
        self.name = name

    def __str__(self) -> str:
        return f"{self._namespace}/{self.name}"

    async def read(self, timeout: float) -> LeaseRecord:
        """The Lease as it is now; KubeError if it cannot be read."""
        try:
            return self._record(await self._client.get(below(self._leases, self.name), timeout=timeout))
        except StatusError as error:
            if error.status == _NOT_FOUND:
                return LeaseRecord()
            raise

    async def write(self, lease: Lease, resource_version: str, timeout: float) -> LeaseRecord:
        """Replace the Lease if it still has that resourceVersion; KubeError otherwise."""
        metadata = {"name": self.name, "namespace": self._namespace}
        body: dict[str, object] = {"metadata": metadata, "spec": msgspec.to_builtins(lease)}
        if resource_version:
            metadata["resourceVersion"] = resource_version
            path = below(self._leases, self.name)
            answer = await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=timeout)
        else:
            body |= {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            answer = await self._client.request("POST", self._leases, body=body, timeout=timeout)
        return self._record(answer)

    def _record(self, body: bytes) -> LeaseRecord:
        try:
            found = decode(body, _Object)
        except WireError as error:
            raise KubeError(f"the lease {self} cannot be read: {error.path}: {error.message}") from error
        return LeaseRecord(found.spec, found.metadata.resource_version)
