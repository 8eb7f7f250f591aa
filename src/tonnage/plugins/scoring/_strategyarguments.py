"""Arguments of `resource-strategy-fit`, in Volcano's form.

Where Volcano falls back to a default, the default applies with a warning; a key that Volcano would not read, or a value
of the wrong type, is an error.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec

from tonnage.framework.plugin import ArgumentError, PluginArguments
from tonnage.model.resources import CPU, MEMORY
from tonnage.model.wire import WireError, convert
from tonnage.plugins.helpers.unknownresources import ANY
from tonnage.plugins.helpers.weights import Warn, names_in

LEAST: Final = "LeastAllocated"
MOST: Final = "MostAllocated"
TYPES = (LEAST, MOST)
WEIGHT_KEY = "resourceStrategyFitWeight"
_DEFAULT_WEIGHT = 10
_LARGEST = 2**63 - 1

T = TypeVar("T")


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A section of the configuration."""


class Strategy(_Part, frozen=True):
    """How a resource is scored, and its weight."""

    type: str = LEAST
    weight: int = 1


class ScarceAvoidance(_Part, frozen=True):
    """Scarce resource avoidance; `resources` is a comma-separated list of names."""

    enable: bool = False
    resources: str = ""
    weight: int = 0
    """The factor of the score; 0 switches it off."""
    resource_weight: dict[str, int] = {}
    """The weight of each resource, 1 by default."""

    @property
    def weights(self) -> dict[str, int]:
        """The weight of every scarce resource."""
        return {name: self.resource_weight.get(name, 1) for name in names_in(self.resources)}


class Proportional(_Part, frozen=True):
    """CPU and memory reserved for a node's idle `resources`, a comma-separated list of names."""

    enable: bool = False
    resources: str = ""
    resource_proportion: dict[str, float] = {}
    """By `<name>.cpu` and `<name>.memory`, the CPUs and GB that each one needs, 1 by default."""

    def needed(self, name: str, of: str) -> float:
        """The CPU or memory that each one of a resource needs."""
        return self.resource_proportion.get(f"{name}.{of}", 1.0)


class StrategyArguments(PluginArguments, rename="camel"):
    """How `resource-strategy-fit` scores nodes, and what it reserves on them."""

    resource_strategy_fit_weight: int = _DEFAULT_WEIGHT
    """The factor of the strategies' score; 0 switches it off."""
    resources: dict[str, Strategy] = msgspec.field(default_factory=lambda: {CPU: Strategy(), MEMORY: Strategy()})
    """By resource name, which may end with `*`."""
    sra: ScarceAvoidance = ScarceAvoidance()
    proportional: Proportional = Proportional()

    def check(self) -> None:
        """Raise an ArgumentError for a value without meaning."""
        _check_range(WEIGHT_KEY, self.resource_strategy_fit_weight, 0)
        for name, strategy in self.resources.items():
            if strategy.type not in TYPES:
                raise ArgumentError(f"resources.{name}.type", f"{strategy.type!r} is none of {', '.join(TYPES)}")
            _check_range(f"resources.{name}.weight", strategy.weight, 1)
        _check_range("sra.weight", self.sra.weight, 0)
        for name, weight in self.sra.resource_weight.items():
            _check_range(f"sra.resourceWeight.{name}", weight, 0)
        for name, amount in self.proportional.resource_proportion.items():
            _check_range(f"proportional.resourceProportion.{name}", amount, 0)


def read(given: Mapping[str, Any], warn: Warn) -> StrategyArguments:
    """Arguments as Volcano reads them."""
    document = dict(given)
    strategies = dict(_strategies(document, warn))
    _check_numbers(document, "sra", "resourceWeight", "an integer", int)
    _check_numbers(document, "proportional", "resourceProportion", "a number", int, float)
    args = _converted(document, StrategyArguments, "")
    if "resources" in document:
        args.resources = strategies
        if not document["resources"]:
            args.resources = StrategyArguments().resources
            warn("resources", f"is empty; {CPU} and {MEMORY} are scored by {LEAST}, as in Volcano")
        elif not strategies:
            warn("resources", "has no name that can be used, so that nothing is scored")
    if args.resource_strategy_fit_weight < 0:
        warn(WEIGHT_KEY, f"{args.resource_strategy_fit_weight} is below 0; {_DEFAULT_WEIGHT} is used, as in Volcano")
        args.resource_strategy_fit_weight = _DEFAULT_WEIGHT
    elif args.resource_strategy_fit_weight == 0:
        warn(WEIGHT_KEY, "0 switches the scores by strategy off")
    args.sra = _avoidance(args.sra, document, warn)
    args.proportional = _proportional(args.proportional, document, warn)
    args.check()
    return args


def _strategies(document: Mapping[str, Any], warn: Warn) -> Iterator[tuple[str, Strategy]]:
    """The strategy of each resource, with Volcano's fallbacks; patterns that Volcano ignores are left out."""
    resources = document.get("resources")
    for name, value in resources.items() if isinstance(resources, Mapping) else ():
        key = f"resources.{name}"
        if not isinstance(name, str):
            raise ArgumentError(key, f"expects the name of a resource, not {name!r}")
        strategy = _converted(value, Strategy, key)
        if ANY in name[:-1] or name == ANY:
            warn(key, f"is ignored, as in Volcano: a name may end with one {ANY} that has something before it")
            continue
        if strategy.weight <= 0:
            warn(f"{key}.weight", f"{strategy.weight} is not above 0; 1 is used, as in Volcano")
            strategy = msgspec.structs.replace(strategy, weight=1)
        if strategy.type not in TYPES:
            near = get_close_matches(strategy.type, TYPES, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            told = f"{strategy.type!r} is none of {', '.join(TYPES)}; {LEAST} is used, as in Volcano{meant}"
            warn(f"{key}.type", told)
            strategy = msgspec.structs.replace(strategy, type=LEAST)
        yield name, strategy


def _avoidance(sra: ScarceAvoidance, document: Mapping[str, Any], warn: Warn) -> ScarceAvoidance:
    names, weights = names_in(sra.resources), dict(sra.resource_weight)
    for name, weight in weights.items():
        key = f"sra.resourceWeight.{name}"
        if name not in names:
            raise ArgumentError(key, f"{name!r} is not listed in sra.resources, so that its weight would not count")
        if weight < 0:
            warn(key, f"{weight} is below 0; 1 is used, as in Volcano")
            weights[name] = 1
    sra = msgspec.structs.replace(sra, resource_weight=weights)
    if not sra.enable:
        _warn_unless_switched(document, "sra", warn)
    elif not names:
        warn("sra", "names no resources, so that no node is avoided")
    elif sra.weight <= 0:
        warn("sra", f"has the weight {sra.weight}, so that no node is avoided; give sra.weight a number above 0")
    elif not any(sra.weights.values()):
        warn("sra", "has resources of weight 0 only, so that no node is avoided")
    return sra if sra.weight >= 0 else msgspec.structs.replace(sra, weight=0)


def _proportional(proportional: Proportional, document: Mapping[str, Any], warn: Warn) -> Proportional:
    names, amounts = names_in(proportional.resources), dict(proportional.resource_proportion)
    known = [f"{name}.{of}" for name in names for of in (CPU, MEMORY)]
    for name, amount in amounts.items():
        key = f"proportional.resourceProportion.{name}"
        if name not in known:
            taken = ", ".join(f"proportional.resourceProportion.{name}" for name in known)
            takes = f"takes {taken}" if taken else "lists no resources"
            raise ArgumentError(key, f"is no argument of resource-strategy-fit, which {takes}")
        if amount < 0:
            warn(key, f"{amount:g} is below 0; 1 is used, as in Volcano")
            amounts[name] = 1.0
    if not proportional.enable:
        _warn_unless_switched(document, "proportional", warn)
    elif not names:
        warn("proportional", "names no resources, so that nothing is kept for them")
    return msgspec.structs.replace(proportional, resource_proportion=amounts)


def _warn_unless_switched(document: Mapping[str, Any], key: str, warn: Warn) -> None:
    """Warn about a section that is given but not enabled."""
    if document.get(key) and "enable" not in document[key]:
        warn(key, f"has no effect without {key}.enable: true")


def _check_numbers(document: Mapping[str, Any], part: str, field: str, expected: str, *kinds: type) -> None:
    """Reject a map of numbers that holds other values."""
    outer = document.get(part)
    numbers = outer.get(field) if isinstance(outer, Mapping) else None
    for name, value in numbers.items() if isinstance(numbers, Mapping) else ():
        if type(value) not in kinds:
            raise ArgumentError(f"{part}.{field}.{name}", f"expects {expected}, not {value!r}")
        _check_range(f"{part}.{field}.{name}", value, -_LARGEST)


def _check_range(key: str, value: float, least: int) -> None:
    if value != value or value < least:
        raise ArgumentError(key, f"{value} is below {least}" if value < least else "expects a number, not nan")
    if value > _LARGEST:
        raise ArgumentError(key, f"{value} does not fit into 64 bits")


def _converted(value: object, kind: type[T], key: str) -> T:
    try:
        return convert(value, kind)
    except WireError as error:
        path = f"{key}.{error.path}".strip(".") if error.path else key
        unknown = error.message.removeprefix("Object contains unknown field `")
        if key and unknown != error.message:
            # The configuration reader checks the fields of a struct, but not of structs in a map.
            takes = " and ".join(f"{key}.{name}" for name in kind.__struct_encode_fields__)  # type: ignore[attr-defined]
            message = f"is no argument of resource-strategy-fit, which takes {takes}"
            raise ArgumentError(f"{key}.{unknown.rstrip('`')}", message) from error
        raise ArgumentError(path, error.message) from error
