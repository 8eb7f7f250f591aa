"""Configurations that cancel themselves out: one plugin pulls pods together as strongly as another pulls them apart."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from tonnage.plugins.catalog import BUILT_IN
from tonnage.settings.notes import Notes, Position

_LEVELS = _EMPTIER, _FULLER = 0.25, 0.75


class Scorer(NamedTuple):
    """A plugin that scores nodes, as the file gives it."""

    name: str
    position: Position
    arguments: Mapping[str, Any]


class _Pull(NamedTuple):
    """A score that grows or falls with how full a node is: 0 to 100 times these."""

    label: str
    slope: float
    base: float
    resources: Mapping[str, float]

    def at(self, full: float) -> float:
        return 100 * (self.base + self.slope * full)


def warn_of_cancelling(scorers: Sequence[Scorer], notes: Notes) -> None:
    """Warn of every two plugins whose scores add up to the same for every node."""
    pulls = [(scorer, pull) for scorer in scorers if (pull := _pull(scorer)) is not None and pull.slope]
    for (first, one), (second, other) in combinations(pulls, 2):
        if one.slope + other.slope == 0 and _weigh_alike(one.resources, other.resources):
            sums = [f"{one.at(full):g} + {other.at(full):g} = {one.at(full) + other.at(full):g}" for full in _LEVELS]
            absent = [scorer.name for scorer in (first, second) if scorer.name not in BUILT_IN]
            here = f" (Tonnage does not have {absent[0]} yet, so the other decides alone here)" if absent else ""
            notes.warn(
                second.position,
                f"{one.label} and {other.label} cancel each other out: a node that is {_EMPTIER:.0%} full scores "
                f"{sums[0]}, one that is {_FULLER:.0%} full {sums[1]}; change one of the weights{here}",
            )


def _weigh_alike(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether two plugins weigh the resources that both look at in the same proportion."""
    shared = [name for name in one if name in other]
    return bool(shared) and len({one[name] / other[name] for name in shared}) == 1


def _pull(scorer: Scorer) -> _Pull | None:
    read = _PULLS.get(scorer.name)
    return read(scorer.arguments) if read is not None else None


def _number(value: object, default: float) -> float:
    """A weight, whichever way it is written; what is no number counts as left out."""
    try:
        return float(value) if isinstance(value, int | float | str) else default
    except ValueError:
        return default


def _binpack(given: Mapping[str, Any]) -> _Pull:
    weight = _number(given.get("binpack.weight"), 1)
    listed = str(given.get("binpack.resources") or "").split(",")
    names = {name.strip(): f"binpack.resources.{name.strip()}" for name in listed if name.strip()}
    names |= {name: f"binpack.{name}" for name in ("cpu", "memory")}
    weights = {name: _number(given.get(key), 1) for name, key in names.items()}
    resources = {name: 1 if weight < 0 else weight for name, weight in weights.items() if weight}
    return _Pull(f"binpack of weight {weight:g}", weight, 0, resources)


def _node_order(given: Mapping[str, Any]) -> _Pull:
    least, most = _number(given.get("leastrequested.weight"), 1), _number(given.get("mostrequested.weight"), 0)
    label = f"nodeorder with leastrequested.weight {least:g}" + (f" and mostrequested.weight {most:g}" if most else "")
    return _Pull(label, most - least, least, {"cpu": 1, "memory": 1})


def _node_resources_fit(given: Mapping[str, Any]) -> _Pull | None:
    strategy = given.get("scoringStrategy") or {}
    if not isinstance(strategy, dict):
        return None
    kind, weight = str(strategy.get("type", "LeastAllocated")), _number(given.get("weight"), 1)
    listed = [part for part in strategy.get("resources") or () if isinstance(part, dict)]
    resources = {str(part.get("name")): _number(part.get("weight"), 1) or 1 for part in listed}
    label = f"noderesourcesfit with {kind}" + (f" of weight {weight:g}" if "weight" in given else "")
    slopes = {"LeastAllocated": (-weight, weight), "MostAllocated": (weight, 0)}
    return _Pull(label, *slopes[kind], resources or {"cpu": 1, "memory": 1}) if kind in slopes else None


def _resource_strategy_fit(given: Mapping[str, Any]) -> _Pull | None:
    """Only where one type is meant for all resources: otherwise it pulls both ways."""
    weight = _number(given.get("resourceStrategyFitWeight"), 10)
    weight = 10 if weight < 0 else weight
    listed = given.get("resources") or {"cpu": {}, "memory": {}}
    if not isinstance(listed, dict) or not all(isinstance(part, dict) for part in listed.values()):
        return None
    kinds = {str(part.get("type", "LeastAllocated")) for part in listed.values()}
    if len(kinds) != 1:
        return None
    resources = {str(name): max(1, _number(part.get("weight"), 1)) for name, part in listed.items()}
    (kind,) = kinds
    label = f"resource-strategy-fit with {kind} of weight {weight:g}"
    slope, base = (weight, 0.0) if kind == "MostAllocated" else (-weight, weight)
    return _Pull(label, slope, base, resources)


_PULLS: dict[str, Callable[[Mapping[str, Any]], _Pull | None]] = {
    "binpack": _binpack,
    "nodeorder": _node_order,
    "noderesourcesfit": _node_resources_fit,
    "resource-strategy-fit": _resource_strategy_fit,
}
