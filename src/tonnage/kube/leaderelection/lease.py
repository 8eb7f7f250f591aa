"""A Lease: who leads, as the candidates for it have written down.

It is asked for again and again rather than watched. An answer to a question says how things were after the question was
asked; news that arrives by a watch may be of any age, and nobody could say until when it may be acted on.
"""

import time

import msgspec

from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.model.wire import WireError, decode

_NOT_FOUND = 404
_USUAL_DURATION = 15
"""kube-scheduler's own, in seconds."""


def since_boot() -> float:
    """Seconds that never go back, and go on while the machine is suspended where the system can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Lease(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """What a Lease says; one that is not there says nothing."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None

    @property
    def holder(self) -> str:
        """Who holds it; empty if nobody does."""
        return self.holder_identity or ""

    @property
    def duration(self) -> float:
        """Seconds without renewal after which others may take it."""
        return float(self.lease_duration_seconds or _USUAL_DURATION)


class Record(msgspec.Struct, gc=False, frozen=True):
    """A Lease with its version in the API server; without one it is not there."""

    lease: Lease = Lease()
    version: str = ""


class _Meta(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct, gc=False, frozen=True):
    metadata: _Meta = _Meta()
    spec: Lease = Lease()


class LeaseStore:
    """One Lease in the API server."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self.name = name

    def __str__(self) -> str:
        return f"{self._namespace}/{self.name}"

    async def read(self, timeout: float) -> Record:
        """The Lease as it is now; KubeError if that cannot be found out."""
        try:
            return self._record(await self._client.get(f"{self._leases}/{self.name}", timeout=timeout))
        except StatusError as error:
            if error.status == _NOT_FOUND:
                return Record()
            raise

    async def write(self, lease: Lease, version: str, timeout: float) -> Record:
        """Say something else, if the Lease still has that version; else, or if it cannot be said, KubeError."""
        metadata = {"name": self.name, "namespace": self._namespace}
        body: dict[str, object] = {"metadata": metadata, "spec": msgspec.to_builtins(lease)}
        if version:
            metadata["resourceVersion"] = version
            path = f"{self._leases}/{self.name}"
            answer = await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=timeout)
        else:
            body |= {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            answer = await self._client.request("POST", self._leases, body=body, timeout=timeout)
        return self._record(answer)

    def _record(self, body: bytes) -> Record:
        try:
            found = decode(body, _Object)
        except WireError as error:
            raise KubeError(f"the lease {self} cannot be read: {error.path}: {error.message}") from error
        return Record(found.spec, found.metadata.resource_version)
