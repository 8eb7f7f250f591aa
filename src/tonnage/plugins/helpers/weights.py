"""Weights in the form of Volcano's arguments: a comma-separated list of names, and a key for each weight."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tonnage.framework.plugin import ArgumentError

_LARGEST = 2**63 - 1

Warn = Callable[[str, str], None]


def names_in(text: str) -> list[str]:
    """The comma-separated names in a text, each once."""
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def listed(given: Mapping[str, Any], key: str) -> list[str]:
    """The names that an argument lists."""
    value = given.get(key, "")
    if not isinstance(value, str):
        example = ", ".join(map(str, value)) if isinstance(value, list) and value else "nvidia.com/gpu, example.com/foo"
        raise ArgumentError(key, f"expects a comma-separated string; write {example!r}")
    return names_in(value)


def integer(given: Mapping[str, Any], key: str, default: int = 1) -> int:
    """A 64-bit integer."""
    value = given.get(key, default)
    if type(value) is not int:
        raise ArgumentError(key, f"expects an integer, not {value!r}")
    if abs(value) > _LARGEST:
        raise ArgumentError(key, f"{value} does not fit into 64 bits")
    return value


def weight_in(given: Mapping[str, Any], key: str, warn: Warn) -> int:
    """A weight; a negative one means 1."""
    value = integer(given, key)
    if value < 0:
        warn(key, f"{value} is below 0; 1 is used, as in Volcano")
        return 1
    return value


def resource_weights(given: Mapping[str, Any], key: str, own: Mapping[str, str], warn: Warn) -> dict[str, int]:
    """The weights of the listed resources; those with arguments of their own are dropped with a warning."""
    weights = {name: weight_in(given, f"{key}.{name}", warn) for name in listed(given, key)}
    for name, where in own.items():
        if weights.pop(name, None) is not None:
            warn(key, f"{name} has no effect here; its weight is {where}")
    return weights


def check_keys(plugin: str, given: Mapping[str, Any], keys: Sequence[str], resources: str) -> None:
    """Reject keys that the plugin does not read; `resources` is the key that lists further resources."""
    names = listed(given, resources)
    for key in map(str, given):
        name = key.removeprefix(f"{resources}.")
        if key in keys:
            continue
        if name == key:
            raise ArgumentError(
                key, f"is no argument of {plugin}, which takes {', '.join(keys)} and {resources}.<name>"
            )
        if name not in names:
            raise ArgumentError(key, f"{name!r} is not listed in {resources}, so that its weight would not count")
