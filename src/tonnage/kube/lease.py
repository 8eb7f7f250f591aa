"""A Lease: who leads, as the candidates for it have written down.

It is asked for again and again rather than watched. An answer to a question says how things were after the question was
asked; news that arrives by a watch may be of any age, and nobody could say until when it may be acted on.
"""

import msgspec

from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.model.wire import WireError, decode

_NOT_FOUND = 404
_USUAL_DURATION = 15
"""kube-scheduler's own, in seconds."""


class Lease(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """What a Lease says; one that is not there says nothing."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None

    @property
    def holder(self) -> str:
        """Who holds it; empty if nobody does."""
        return self.holder_identity or ""

    @property
    def duration(self) -> float:
        """Seconds without renewal after which others may take it."""
        return float(self.lease_duration_seconds or _USUAL_DURATION)


class _Object(msgspec.Struct, gc=False, frozen=True):
    spec: Lease = Lease()


async def read_lease(client: Client, namespace: str, name: str, timeout: float) -> Lease:
    """The Lease as it is now; KubeError if that cannot be found out."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    try:
        return decode(await client.get(path, timeout=timeout), _Object).spec
    except StatusError as error:
        if error.status == _NOT_FOUND:
            return Lease()
        raise
    except WireError as error:
        raise KubeError(f"the lease {namespace}/{name} cannot be read: {error.path}: {error.message}") from error
