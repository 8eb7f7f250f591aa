"""Arguments of `noderesourcesfit`: the part of Kubernetes' NodeResourcesFitArgs that concerns scores.

Defaults, limits and errors are Kubernetes'. The strategy ResourceBinPacking is an addition; it can also be read from
the Policy document in which the Resource Bin Packing priority function was proposed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage.framework.plugin import ArgumentError, PluginArguments
from tonnage.model.resources import CPU, MEMORY, STORAGE
from tonnage.model.wire import WireError, convert

LEAST: Final = "LeastAllocated"
MOST: Final = "MostAllocated"
RATIO: Final = "RequestedToCapacityRatio"
BIN_PACKING: Final = "ResourceBinPacking"
KIND = "NodeResourcesFitArgs"
_GROUP = "kubescheduler.config.k8s.io/"
_LARGEST_WEIGHT = 100
_LARGEST = 2**31 - 1
_STRATEGY = "scoringStrategy"
_SCALARS_WITHOUT_DOMAIN = ("hugepages-", "attachable-volumes-")

T = TypeVar("T")
Warn = Callable[[str, str], None]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of the configuration."""


class ScoredResource(_Part, frozen=True):
    """A scored resource and its weight."""

    name: str
    weight: int = 1


class ShapePoint(_Part, frozen=True):
    """A point of a shape: utilization in percent, and the score from 0 to 10."""

    utilization: int = 0
    score: int = 0


class Ratio(_Part, frozen=True):
    """The shape that RequestedToCapacityRatio follows."""

    shape: tuple[ShapePoint, ...] = ()


CPU_AND_MEMORY = (ScoredResource(CPU), ScoredResource(MEMORY))


class ScoringStrategy(_Part, frozen=True, rename="camel"):
    """The scoring strategy and its resources."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", "ResourceBinPacking"]
    resources: tuple[ScoredResource, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: Ratio | None = None


class FitArguments(PluginArguments, rename="camel"):
    """How `noderesourcesfit` scores nodes."""

    scoring_strategy: ScoringStrategy = ScoringStrategy(LEAST)
    ignored_resources: tuple[str, ...] = ()
    """Only for Kubernetes' filter; has no effect on scores."""
    ignored_resource_groups: tuple[str, ...] = ()
    """Only for Kubernetes' filter; has no effect on scores."""
    weight: int = 1
    """Multiplies the score."""

    def check(self) -> None:
        """Raise an ArgumentError where Kubernetes' validation would find one."""
        strategy = self.scoring_strategy
        _check_weight("weight", self.weight, _LARGEST)
        if not strategy.resources:
            raise ArgumentError(f"{_STRATEGY}.resources", "at least one resource is needed")
        largest = _LARGEST if strategy.type == BIN_PACKING else _LARGEST_WEIGHT
        for number, resource in enumerate(strategy.resources):
            _check_weight(f"{_STRATEGY}.resources[{number}].weight", resource.weight, largest)
        key = f"{_STRATEGY}.requestedToCapacityRatio"
        if strategy.type == RATIO:
            _check_shape(f"{key}.shape", strategy.requested_to_capacity_ratio or Ratio())
        elif strategy.requested_to_capacity_ratio is not None:
            raise ArgumentError(key, f"goes with the type {RATIO} only, not with {strategy.type}")


def is_scored(name: str, strategy: str) -> bool:
    """Whether a strategy ever scores a resource: Kubernetes' skip `pods` and names without a domain."""
    known = (CPU, MEMORY, STORAGE)
    return strategy == BIN_PACKING or name in known or "/" in name or name.startswith(_SCALARS_WITHOUT_DOMAIN)


def read(given: Mapping[str, Any], warn: Warn) -> FitArguments:
    """Arguments as Kubernetes reads them: empty and zero values get their defaults before validation."""
    document = _without_nulls(given)
    _check_header(document)
    if isinstance(document.get(_STRATEGY), Mapping):
        document[_STRATEGY] = _without_nulls(document[_STRATEGY])
    args = _converted(document, FitArguments)
    for key in ("ignoredResources", "ignoredResourceGroups"):
        if key in document:
            warn(key, "has no effect on scores; what a pod requests is always checked against its node")
    if args.weight == 0:
        warn("weight", "0 means the default, 1, as in Kubernetes; leave the plugin out to switch it off")
        args.weight = 1
    strategy = args.scoring_strategy
    args.scoring_strategy = replace(strategy, resources=_defaulted(strategy, warn))
    args.check()
    return args


def from_policy(document: Mapping[str, Any]) -> FitArguments:
    """The arguments equivalent to the Resource Bin Packing priority of a scheduler Policy."""
    policy = _converted(dict(document), _Policy)
    if policy.kind not in (None, "Policy"):
        raise ArgumentError("kind", f"expects Policy, not {policy.kind}")
    found: list[tuple[str, _Priority, tuple[_Weighted, ...]]] = []
    for number, priority in enumerate(policy.priorities):
        if priority.argument is not None and priority.argument.resource_bin_packing is not None:
            found.append((f"priorities[{number}]", priority, priority.argument.resource_bin_packing.resources))
    if len(found) != 1:
        many = "no priority has" if not found else "more than one priority has"
        raise ArgumentError("priorities", f"{many} an argument resourceBinPacking; exactly one is needed")
    place, priority, weighted = found[0]
    _check_weight(f"{place}.weight", priority.weight or 1, _LARGEST)
    place = f"{place}.argument.resourceBinPacking.resources"
    if not weighted:
        raise ArgumentError(place, "at least one resource is needed")
    resources = []
    for number, entry in enumerate(weighted):
        if bool(entry.resource) == bool(entry.name):
            raise ArgumentError(f"{place}[{number}]", "expects the resource's name, as `resource`")
        _check_weight(f"{place}[{number}].weight", entry.weight, _LARGEST)
        resources.append(ScoredResource(entry.resource or entry.name, entry.weight))
    return FitArguments(scoring_strategy=ScoringStrategy(BIN_PACKING, tuple(resources)), weight=priority.weight or 1)


class _Weighted(_Part, frozen=True):
    """A resource in a Policy; Kubernetes renamed the proposal's `resource` to `name`."""

    weight: int
    resource: str = ""
    name: str = ""


class _BinPacking(_Part, frozen=True):
    resources: tuple[_Weighted, ...] = ()


class _Argument(msgspec.Struct, frozen=True, rename="camel"):
    resource_bin_packing: _BinPacking | None = None


class _Priority(msgspec.Struct, frozen=True):
    name: str = ""
    weight: int | None = None
    argument: _Argument | None = None


class _Policy(msgspec.Struct, frozen=True):
    """The part of a scheduler Policy that is read here."""

    kind: str | None = None
    priorities: tuple[_Priority, ...] = ()


def _converted(document: dict[str, Any], kind: type[T]) -> T:
    try:
        return convert(document, kind)
    except WireError as error:
        raise ArgumentError(error.path, error.message) from error


def _without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in document.items() if value is not None}


def _check_header(document: dict[str, Any]) -> None:
    """The arguments without `apiVersion` and `kind`, which Kubernetes' documents may have."""
    kind, version = document.pop("kind", KIND), document.pop("apiVersion", _GROUP)
    if kind != KIND:
        raise ArgumentError("kind", f"expects {KIND}, not {kind!r}")
    if not str(version).startswith(_GROUP):
        raise ArgumentError("apiVersion", f"expects a version of {_GROUP.rstrip('/')}, not {version!r}")


def _defaulted(strategy: ScoringStrategy, warn: Warn) -> tuple[ScoredResource, ...]:
    """The strategy's resources: CPU and memory by default; a weight of 0 means 1."""
    result: list[ScoredResource] = []
    for number, resource in enumerate(strategy.resources):
        key = f"{_STRATEGY}.resources[{number}]"
        if not is_scored(resource.name, strategy.type):
            warn(f"{key}.name", f"{resource.name} has no effect: as in Kubernetes, {strategy.type} does not score it")
        if any(resource.name == other.name for other in result):
            warn(f"{key}.name", f"{resource.name} is listed before; both weights count")
        if resource.weight == 0:
            warn(f"{key}.weight", "0 means the default, 1, as in Kubernetes")
        result.append(resource if resource.weight else replace(resource, weight=1))
    return tuple(result) or CPU_AND_MEMORY


def _check_weight(key: str, weight: int, largest: int) -> None:
    if not 1 <= weight <= largest:
        raise ArgumentError(key, f"expects a weight from 1 to {largest}, not {weight}")


def _check_shape(key: str, ratio: Ratio) -> None:
    if not ratio.shape:
        raise ArgumentError(key, "at least one point is needed")
    for number, point in enumerate(ratio.shape):
        if not 0 <= point.utilization <= 100:
            message = f"expects a percentage from 0 to 100, not {point.utilization}"
            raise ArgumentError(f"{key}[{number}].utilization", message)
        if number and point.utilization <= ratio.shape[number - 1].utilization:
            message = f"{point.utilization} is not above the point before; utilization must increase"
            raise ArgumentError(f"{key}[{number}].utilization", message)
        if not 0 <= point.score <= 10:
            raise ArgumentError(f"{key}[{number}].score", f"expects a score from 0 to 10, not {point.score}")
