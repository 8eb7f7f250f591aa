"""The kinds that commands which only look read, and the rights that takes."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tonnage.kube.kinds import BATCH_KINDS, NODES, PODS, WatchedKind
from tonnage.kube.watch import ForbiddenError
from tonnage.model.problem import Problem

_VITAL = (NODES, PODS)

LIVE_KINDS: tuple[WatchedKind, ...] = tuple(
    msgspec.structs.replace(kind, is_vital=kind in _VITAL) for kind in BATCH_KINDS
)
"""Every registered kind. Without nodes and pods there is nothing to look at; without others a part is missing."""


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
