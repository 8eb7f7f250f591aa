"""Outcomes: what one side made of a pod or a review, in a form in which two sides can be compared."""

import base64
import copy
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tonnage.model.quantity import QuantityError, exact

_TIMES = re.compile(
    r"(^hami\.io/(vgpu|bind)-time$|predicate-time$|-assigned-time$|ALLOC_TIME$|^hami\.io/bind-phase$|^tonnage\.io/)"
)
"""Annotations that tell times, or how far a bind is."""


class Placement(NamedTuple):
    """What a side made of a pod."""

    node: str = ""
    written: tuple[tuple[str, str], ...] = ()
    """The annotations that the pod got, without times."""
    failed: Mapping[str, str] = MappingProxyType({})
    """Why each other node was turned down."""
    fitting: frozenset[str] = frozenset()
    """The nodes that the answer names."""
    error: str = ""

    def reasons(self, node: str) -> set[str]:
        """The names of the reasons for a node."""
        return {part.split()[-1] for part in self.failed.get(node, "").split(",") if part.split()} | {
            self.failed.get(node, "")
        }

    def equals(self, other: "Placement") -> bool:
        """Whether the sides decided the same; which nodes are told as failed does not matter if the pod has one."""
        if bool(self.error) != bool(other.error):
            return False
        if self.node or other.node or self.fitting or other.fitting:
            return (self.node, self.written, self.fitting) == (other.node, other.written, other.fitting)
        return self.failed == other.failed


class Review(NamedTuple):
    """What a side made of an admission review."""

    allowed: bool
    code: int
    pod: str
    """The pod after the patch, in one form whatever the patch was."""


def added(before: dict[str, Any], after: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The annotations that a pod got while it was placed."""
    old, new = before["metadata"].get("annotations") or {}, after["metadata"].get("annotations") or {}
    return tuple(sorted((key, text) for key, text in new.items() if old.get(key) != text and not _TIMES.search(key)))


def lowered(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with keys in small letters: Go does not mind their case."""
    return {key.lower(): value for key, value in answer.items()}


def read_review(pod: dict[str, Any], answer: dict[str, Any]) -> Review:
    """The outcome of a review."""
    response = answer["response"]
    if not response.get("allowed"):
        return Review(False, int((response.get("status") or {}).get("code") or 0), "")
    patch = response.get("patch")
    operations = json.loads(base64.b64decode(patch)) if patch else []
    return Review(True, 0, json.dumps(_plain(_patched(pod, operations)), sort_keys=True))


def _patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The document after a JSON Patch of additions, replacements and removals."""
    document = copy.deepcopy(document)
    for operation in operations:
        *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"][1:].split("/")]
        target = document
        for step in steps:
            target = target[int(step)] if isinstance(target, list) else target[step]
        if isinstance(target, list):
            place = len(target) if last == "-" else int(last)
            if operation["op"] != "add":
                del target[place]
            if operation["op"] != "remove":
                target.insert(place, operation["value"])
        elif operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return document


def _plain(value: Any, key: str = "") -> Any:
    """A document without what is empty, and with quantities as numbers."""
    if isinstance(value, dict):
        shown = {name: _plain(part, key if key in ("limits", "requests") else name) for name, part in value.items()}
        return {name: part for name, part in shown.items() if part not in (None, {}, [], "")}
    if isinstance(value, list):
        return [_plain(part, key) for part in value]
    if key in ("limits", "requests") and isinstance(value, str | int):
        try:
            return str(exact(value))
        except QuantityError:
            return value
    return value
