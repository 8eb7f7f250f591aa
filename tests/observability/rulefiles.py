"""The alerts and dashboards of the chart, and what their expressions refer to."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.paths import ROOT

RULES, DASHBOARDS = ROOT / "deploy/chart/rules", ROOT / "deploy/chart/dashboards"
OF_TARGETS = frozenset({"namespace", "job", "pod", "instance"})
"""Labels that Prometheus gives to all series of a process."""
OF_CLIENTS = frozenset({"process_resident_memory_bytes", "process_cpu_seconds_total"})
"""Metrics of every Prometheus client."""
_MADE = re.compile(r'label_replace\(.*?, "(\w+)"')
_SELECTOR = re.compile(r"\b((?:tonnage|hami|process)_\w+)\s*(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_ENDINGS = ("_bucket", "_sum", "_count")


def alerts() -> dict[str, dict[str, Any]]:
    """All alerts by name."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(RULES.glob("*.yaml")):
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in group["rules"]:
                assert rule["alert"] not in found, f"{rule['alert']} is there twice"
                found[rule["alert"]] = rule
    return found


def dashboards() -> dict[Path, dict[str, Any]]:
    return {file: json.loads(file.read_text()) for file in sorted(DASHBOARDS.glob("*.json"))}


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    """The expressions of all panels, and those that fill its variables."""
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query")


def unknown(expression: str, metrics: dict[str, frozenset[str]]) -> list[str]:
    """Metrics that do not exist, and labels that none of the expression's metrics has."""
    wrong = []
    labels = set(OF_TARGETS) | {"le"} | set(_MADE.findall(expression))
    for name, matchers in _SELECTOR.findall(expression):
        known = name if name in metrics else next((name.removesuffix(e) for e in _ENDINGS if name.endswith(e)), name)
        if name in OF_CLIENTS:
            continue
        if known not in metrics:
            wrong.append(name)
            continue
        labels |= metrics[known]
        matched = set(_MATCHER.findall(matchers))
        wrong += [f"{name}{{{label}}}" for label in sorted(matched - metrics[known] - OF_TARGETS)]
    grouped = {
        label.strip() for labels in _GROUPING.findall(expression) for label in labels.split(",") if label.strip()
    }
    asked = re.findall(r"label_values\(\w+, (\w+)\)", expression)
    return wrong + sorted((grouped | set(asked)) - labels)
