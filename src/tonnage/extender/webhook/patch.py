"""The JSON Patch (RFC 6902) from a pod to what admission wants, as small as possible.

Only fields that admission sets are read, so fields that Tonnage does not know stay exactly as they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tonnage.model.quantity import QuantityError, nano

Wanted = Mapping[str, "str | Wanted"]
"""Texts that a map must hold, in nested maps."""


class Operation(msgspec.Struct, gc=False, frozen=True):
    """One step of a patch; nothing is ever removed."""

    op: str
    """`add` or `replace`."""
    path: str
    value: Any


def pointer(*steps: str | int) -> str:
    """A JSON Pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def merged(now: Mapping[str, Any], wanted: Wanted, path: str) -> Iterator[Operation]:
    """The operations that set what is wanted in a map; missing nested maps are added in the same step."""
    for key, value in wanted.items():
        here = path + pointer(key)
        present = now.get(key)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            yield from merged(present, value, here)
        elif not (isinstance(value, str) and _same(present, value)):
            yield Operation("replace" if key in now else "add", here, value)


def with_variables(container: Mapping[str, Any], wanted: Mapping[str, str], path: str) -> Iterator[Operation]:
    """The operations that set environment variables of a container; of several with one name the last counts."""
    now, path = container.get("env"), f"{path}/env"
    entries = [{"name": name, "value": value} for name, value in wanted.items()]
    if not now:
        yield Operation("replace" if "env" in container else "add", path, entries)
        return
    places = {entry["name"]: place for place, entry in enumerate(now)}
    for entry in entries:
        place = places.get(entry["name"])
        if place is None:
            yield Operation("add", f"{path}/-", entry)
        elif now[place].get("valueFrom") is not None or (now[place].get("value") or "") != entry["value"]:
            yield Operation("replace", f"{path}/{place}", entry)


def _same(present: object, wanted: str) -> bool:
    """Whether the text is there already, or a quantity of the same value."""
    if present == wanted:
        return True
    if isinstance(present, bool) or not isinstance(present, str | int | float):
        return False
    try:
        return nano(present) == nano(wanted)
    except QuantityError:
        return False
