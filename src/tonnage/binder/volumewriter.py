"""VolumeWriter: what Kubernetes' controllers need to be told so that a claim gets its volume.

A claim whose volume is to be provisioned is told the node of its pod; a free volume is told its claim. Both are written
only onto the version of the object that was just read, so that two schedulers never give one volume to two claims.
"""

import asyncio
from typing import Any

import msgspec

from tonnage.binder.binding import CONFLICT, NOT_FOUND, BindError
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path
from tonnage.model.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, ClaimReference, PersistentVolumeClaim
from tonnage.model.wire import WireError, decode

_AT_ONCE = 16
_SECONDS = 10.0
_OVERLOADED = 429


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str = ""
    claim_ref: ClaimReference | None = None


class _Stored(msgspec.Struct, frozen=True):
    """A claim or a volume as the API server has it now."""

    metadata: _Metadata
    spec: _Spec = _Spec()


class VolumeWriter:
    """Writes to claims and volumes; each method answers whether the object says by now what it should."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._writing = asyncio.Semaphore(_AT_ONCE)

    async def select_node(self, claim: PersistentVolumeClaim, node: str) -> bool:
        """Tell a claim its node, unless it was told one or has a volume; BindError if that is refused."""
        namespace, name = claim.metadata.namespace or "default", claim.metadata.name
        path = api_path("v1", "namespaces", namespace, "persistentvolumeclaims", name)

        def change(now: _Stored) -> dict[str, Any] | None:
            if claim.metadata.uid not in (None, now.metadata.uid):
                raise BindError(f"the PersistentVolumeClaim {claim.key} is another one now", lasting=True)
            if now.spec.volume_name or (now.metadata.annotations or {}).get(SELECTED_NODE):
                return None
            return {"metadata": {"annotations": {SELECTED_NODE: node}}}

        return await self._write(path, f"claim {claim.key} cannot be told its node {node}", change)

    async def set_claim(self, volume: str, claim: PersistentVolumeClaim) -> bool:
        """Tell a volume its claim; BindError if that is refused or if it has another one."""
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace or "default",
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
        }

        def change(now: _Stored) -> dict[str, Any] | None:
            owner = now.spec.claim_ref
            if now.metadata.deletion_timestamp or (owner is not None and not owner.names(claim)):
                raise BindError(f"the PersistentVolume {volume} is not free any more for {claim.key}", lasting=True)
            if owner is not None and owner.uid:
                return None
            notes = {BOUND_BY_CONTROLLER: "yes"} if owner is None else {}
            return {"metadata": {"annotations": notes}, "spec": {"claimRef": reference}}

        path = api_path("v1", "persistentvolumes", volume)
        return await self._write(path, f"the PersistentVolume {volume} cannot be bound to {claim.key}", change)

    async def _write(self, path: str, failure: str, change: Any) -> bool:
        try:
            async with self._writing:
                now = decode(await self._client.get(path, timeout=_SECONDS), _Stored)
                body = change(now)
                if body is not None:
                    body["metadata"]["resourceVersion"] = now.metadata.resource_version
                    await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=_SECONDS)
        except StatusError as error:
            if error.status == NOT_FOUND or (error.is_definite and error.status not in (CONFLICT, _OVERLOADED)):
                raise BindError(f"{failure}: {error}", lasting=True) from error
            return False
        except (KubeError, WireError):
            return False
        return True
