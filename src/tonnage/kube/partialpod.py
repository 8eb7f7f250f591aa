"""Partial pods: what can be read of a pod on a node whose JSON does not fit the types of a pod.

The API server gives out no such pods. But a pod that runs must count, whatever this program makes of its fields.
"""

from collections.abc import Iterator
from typing import Any

from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, convert

_METADATA = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_TEXTS = ("labels", "annotations")


def partial_pod(plain: object) -> Pod | None:
    """The readable parts of a pod; nothing if it has no node."""
    given, spec, status = _map(plain, "metadata"), _map(plain, "spec"), _map(plain, "status")
    if not isinstance(spec.get("nodeName"), str):
        return None
    metadata: dict[str, Any] = {name: given[name] for name in _METADATA if isinstance(given.get(name), str)}
    for name in _TEXTS:
        metadata[name] = {key: text for key, text in _map(given, name).items() if isinstance(text, str)}
    read: dict[str, Any] = {"nodeName": spec["nodeName"]}
    for name in ("containers", "initContainers"):
        read[name] = list(_containers(spec.get(name)))
    phase = status.get("phase")
    try:
        told = {"phase": phase if isinstance(phase, str) else None}
        return convert({"metadata": metadata, "spec": read, "status": told}, Pod)
    except WireError:
        return None


def _containers(given: object) -> Iterator[dict[str, Any]]:
    for container in given if isinstance(given, list) else ():
        name, policy = (
            container.get(key) if isinstance(container, dict) else None for key in ("name", "restartPolicy")
        )
        resources = _map(container, "resources")
        yield {
            "name": name if isinstance(name, str) else "",
            "restartPolicy": policy if isinstance(policy, str) else None,
            "resources": {part: _quantities(_map(resources, part)) for part in ("requests", "limits")},
        }


def _quantities(given: dict[str, Any]) -> dict[str, Any]:
    return {name: quantity for name, quantity in given.items() if isinstance(quantity, str | int | float)}


def _map(above: object, name: str) -> dict[str, Any]:
    """A map below another; empty if there is none."""
    below = above.get(name) if isinstance(above, dict) else None
    return below if isinstance(below, dict) else {}
