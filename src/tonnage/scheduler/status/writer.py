"""StatusWriter: writes to the status of custom objects, with or without a status subresource."""

import logging
from typing import Any

from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.resource import Resource

log = logging.getLogger(__name__)

NOT_FOUND, CONFLICT, OVERLOADED = 404, 409, 429
REFUSED_PAUSE, FAILED_PAUSE = 60.0, 1.0
"""Seconds until a write is repeated that was refused, or that failed otherwise."""
_SECONDS = 10.0


class StatusWriter:
    """Merges fields into objects; a failure is no exception but a pause after which to try again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._without_status: set[str] = set()
        """Paths of resources whose definition has no status subresource: their status is a plain field."""
        self._logged: set[tuple[str, int]] = set()
        """Failures that were logged, by resource and HTTP status."""
        self.written = 0

    async def status(self, resource: Resource, key: str, uid: str | None, fields: dict[str, Any]) -> float | None:
        """Write fields of a status; the seconds until to try again, None if it is written or the object is gone."""
        body = {"metadata": {"uid": uid}, "status": fields}
        path = resource.path_of(key)
        if resource.path in self._without_status:
            return await self._patch(resource, path, body)
        try:
            await self._send(f"{path}/status", body)
            return None
        except StatusError as error:
            if error.status != NOT_FOUND:
                return self._failed(resource, path, error)
        except KubeError as error:
            return self._failed(resource, path, error)
        # Either the object is gone, or it has no status subresource.
        return await self._patch(resource, path, body, is_first=True)

    async def _patch(self, resource: Resource, path: str, body: dict[str, Any], is_first: bool = False) -> float | None:
        try:
            await self._send(path, body)
        except KubeError as error:
            return self._failed(resource, path, error)
        if is_first:
            self._without_status.add(resource.path)
        return None

    async def _send(self, path: str, body: dict[str, Any]) -> None:
        await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=_SECONDS)
        self.written += 1

    def _failed(self, resource: Resource, path: str, error: KubeError) -> float | None:
        status = error.status if isinstance(error, StatusError) else 0
        if status in (NOT_FOUND, CONFLICT):
            # The object is gone, or another one has its name: the watch will show it.
            return None
        is_definite = isinstance(error, StatusError) and error.is_definite and status != OVERLOADED
        if (resource.path, status) not in self._logged:
            self._logged.add((resource.path, status))
            log.warning("%s: its status cannot be written, which is said once: %s", path, error)
        return REFUSED_PAUSE if is_definite else FAILED_PAUSE
