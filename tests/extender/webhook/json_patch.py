"""Applying a JSON Patch, written from RFC 6902 and RFC 6901 alone."""

from copy import deepcopy
from typing import Any


def apply(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The document after the operations; an error for anything that the RFC calls one."""
    document = deepcopy(document)
    for operation in operations:
        assert set(operation) == {"op", "path", "value"}
        document = _apply_one(document, operation["op"], operation["path"], deepcopy(operation["value"]))
    return document


def _apply_one(document: Any, op: str, path: str, value: Any) -> Any:
    if path == "":
        return value
    assert path.startswith("/")
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
    target = document
    for step in steps:
        target = target[_index(target, step)] if isinstance(target, list) else target[step]
    if isinstance(target, list):
        if op == "add":
            target.insert(len(target) if last == "-" else _index(target, last, new=True), value)
        else:
            target[_index(target, last)] = value
    else:
        assert isinstance(target, dict), f"{path} leads into {target!r}"
        assert op != "replace" or last in target, f"{path} is not there"
        target[last] = value
    return document


def _index(items: list[Any], step: str, new: bool = False) -> int:
    assert step.isdigit(), f"{step} is no position"
    assert int(step) < len(items) + new, f"{step} is behind the end"
    return int(step)
