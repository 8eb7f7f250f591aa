"""The smallest JSON Patch (RFC 6902) that makes a pod what admission wants it to be.

Only what is named is looked at, so fields that Tonnage does not know stay exactly as they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tonnage.model.quantity import QuantityError, nano

Wanted = Mapping[str, "str | Wanted"]
"""Texts that a map has to hold, in maps below it where they belong there."""


class Operation(msgspec.Struct, gc=False, frozen=True):
    """One step of a patch; nothing is ever removed."""

    op: str
    """`add` or `replace`."""
    path: str
    value: Any


def pointer(*steps: str | int) -> str:
    """A path as RFC 6901 writes it."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def merged(now: Mapping[str, Any], wanted: Wanted, path: str) -> Iterator[Operation]:
    """What makes a map hold what is wanted; maps that are missing on the way are made in the same step."""
    for key, value in wanted.items():
        here = path + pointer(key)
        present = now.get(key)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            yield from merged(present, value, here)
        elif not (isinstance(value, str) and _same(present, value)):
            yield Operation("replace" if key in now else "add", here, value)


def with_variables(container: Mapping[str, Any], wanted: Mapping[str, str], path: str) -> Iterator[Operation]:
    """What makes the container at a path have variables; of several of one name the last one counts."""
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
    """Whether a text stands there already, or a quantity that means the same."""
    if present == wanted:
        return True
    if isinstance(present, bool) or not isinstance(present, str | int | float):
        return False
    try:
        return nano(present) == nano(wanted)
    except QuantityError:
        return False
