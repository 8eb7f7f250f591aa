"""The kinds that commands which only look read, and the rights that takes."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tonnage.kube.kinds import BATCH_KINDS, NODES, PODS, WatchedKind
from tonnage.kube.paths import below
from tonnage.kube.resource import Resource
from tonnage.kube.watch import ForbiddenError
from tonnage.model.problem import Problem

_VITAL = (NODES, PODS)

LIVE_KINDS: tuple[WatchedKind, ...] = tuple(
    msgspec.structs.replace(kind, is_vital=kind in _VITAL) for kind in BATCH_KINDS
)
"""Every registered kind. Without nodes and pods there is nothing to look at; without others a part is missing."""


def kinds_in(namespace: str) -> tuple[WatchedKind, ...]:
    """The kinds for somebody who may read one namespace only: what lies in it, and others where they may be read."""
    return tuple(
        msgspec.structs.replace(
            kind, is_vital=kind.resource is PODS.resource, resource=_within(kind.resource, namespace)
        )
        for kind in LIVE_KINDS
    )


def _within(resource: Resource, namespace: str) -> Resource:
    if not resource.is_namespaced:
        return resource
    group, _, plural = resource.path.rpartition("/")
    return msgspec.structs.replace(resource, path=below(group, "namespaces", namespace, plural))


def viewer_rules(kinds: Iterable[WatchedKind] = LIVE_KINDS) -> list[dict[str, Any]]:
    """The rules of a ClusterRole that lets somebody look: one per API group, in the registry's order."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(kind.resource.group, []).append(kind.resource.plural)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]}
        for group, resources in groups.items()
    ]


def forbidden(kind: WatchedKind, error: ForbiddenError | str) -> Problem:
    """The problem that a kind may not be read."""
    return Problem(kind.resource.name, "", "", "", f"{error}; it is left out")
