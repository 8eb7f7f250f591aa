"""The chart's values: what its schema says about them, and their defaults."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.paths import ROOT

SCHEMA: dict[str, Any] = json.loads((ROOT / "deploy/chart/values.schema.json").read_text())
VALUES: dict[str, Any] = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text())


def described_values() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value by its path, with its part of the schema; groups are left out."""
    for path, part in _described(SCHEMA, ""):
        if path != "global":
            yield path, part


def _described(schema: dict[str, Any], before: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, part in schema["properties"].items():
        path = f"{before}{name}"
        if "properties" in part and "description" in next(iter(part["properties"].values())):
            yield from _described(part, f"{path}.")
        else:
            yield path, part


def default_value(path: str) -> Any:
    """The default of a value; nothing if it has none."""
    found: Any = VALUES
    for name in path.split("."):
        found = (found or {}).get(name)
    return found
