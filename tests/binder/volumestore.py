"""A client of an API server in memory that has claims and volumes, with a version of each as a real one has."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tonnage.kube.errors import StatusError

CLAIM, VOLUME = "/api/v1/namespaces/default/persistentvolumeclaims/c", "/api/v1/persistentvolumes/pv"


class VolumeStore:
    """Answers reads and merge patches; `between` is called once, after the next read."""

    def __init__(self, **objects: dict[str, Any]) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[dict[str, Any]] = []
        self.between: Callable[[], None] | None = None
        self.failure: Exception | None = None
        """What every request is answered with, if anything."""
        self.put(CLAIM, {"metadata": {"uid": "u1"}, **objects.get("claim", {})})
        self.put(VOLUME, {"metadata": {"uid": "u2"}, **objects.get("volume", {})})

    def put(self, path: str, patch: dict[str, Any]) -> None:
        """Merge something into an object, as anybody may do."""
        now = _merged(self.objects.get(path, {}), patch)
        version = int(now["metadata"].get("resourceVersion", "0")) + 1
        self.objects[path] = _merged(now, {"metadata": {"resourceVersion": str(version)}})

    async def get(self, path: str, timeout: float) -> bytes:
        await asyncio.sleep(0)
        self._check(path)
        read = json.dumps(self.objects[path]).encode()
        if self.between is not None:
            self.between()
            self.between = None
        return read

    async def request(self, method: str, path: str, *, body: dict[str, Any], type_: str, timeout: float) -> bytes:
        assert (method, type_) == ("PATCH", "application/merge-patch+json")
        await asyncio.sleep(0)
        self._check(path)
        if body["metadata"].pop("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            raise StatusError(409, "Conflict", "the object has been modified")
        self.writes.append(body)
        self.put(path, body)
        return b"{}"

    def _check(self, path: str) -> None:
        if self.failure is not None:
            raise self.failure
        if path not in self.objects:
            raise StatusError(404, "NotFound", f"{path} not found")


def _merged(now: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(now)
    for key, value in patch.items():
        merged[key] = _merged(merged.get(key) or {}, value) if isinstance(value, dict) else value
    return merged
