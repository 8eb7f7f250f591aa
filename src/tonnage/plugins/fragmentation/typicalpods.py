"""Typical pods: the pod kinds that make up most of a workload, their popularity, and their written form.

A kind is what matters for fragments: CPU, number of cards, share of each card, and accepted models. The most popular
kinds count until they make up 95 % of all pods, pods without cards included.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tonnage.framework.plugin import ArgumentError, FileContent
from tonnage.model.quantity import QuantityError, milli
from tonnage.model.wire import WireError, convert
from tonnage.plugins.helpers.cardshares import WHOLE

COVERED = 0.95
"""The part of all pods that the typical kinds must cover."""
_MILLI = 1_000


class PodKind(NamedTuple):
    """Pods with equal needs; equally popular kinds sort by these fields."""

    cpu: int
    """In millicores."""
    share: int
    """Millionths of each card."""
    gpus: int
    models: tuple[str, ...] = ()
    """Accepted card models, as whole names or parts of them; empty for all."""

    def accepted(self, types: Sequence[str]) -> list[bool]:
        """Which card types the kind accepts; a model that is the full name of one of them matches no other."""
        names = set(types)
        words = [(model, model.upper()) for model in self.models]
        return [
            not words or any(model == type_ or (model not in names and word in type_.upper()) for model, word in words)
            for type_ in types
        ]


class TypicalPod(msgspec.Struct, gc=False, frozen=True):
    """A pod kind and its part of all typical pods."""

    kind: PodKind
    popularity: float


TypicalPods = tuple[TypicalPod, ...]


def typical(counts: Mapping[PodKind, float], cover: float = COVERED) -> TypicalPods:
    """The most popular kinds, with their parts of the pods that they cover."""
    wanted, covered = cover * sum(counts.values()), 0.0
    chosen: list[tuple[PodKind, float]] = []
    for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted:
            break
        chosen.append((kind, count))
        covered += count
    return tuple([TypicalPod(kind, count / covered) for kind, count in chosen])


def kind_of(cpu: int, gpus: int, share: float, models: tuple[str, ...] = ()) -> PodKind:
    """A kind from millicores, number of cards and share of each card."""
    return PodKind(cpu, round(share * WHOLE) if gpus else 0, gpus, models if gpus else ())


class WrittenPod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod kind in a configuration."""

    cpu: str | int | float = 0
    """A quantity."""
    gpus: int = 0
    share: float = 1.0
    """The part of each card."""
    models: list[str] = []
    """Accepted card models, as whole names or parts of them; empty for all."""
    popularity: float = 1.0
    """Relative to the other kinds."""

    def __post_init__(self) -> None:
        if self.gpus < 0:
            raise ValueError(f"gpus: {self.gpus} is below 0")
        if not 0 < self.share <= 1:
            raise ValueError(f"share: {self.share} is not above 0 and at most 1")
        if not 0 < self.popularity < float("inf"):
            raise ValueError(f"popularity: {self.popularity} is not above 0")
        try:
            cpu = milli(self.cpu)
        except QuantityError as error:
            raise ValueError(f"cpu: {error}") from error
        if cpu < 0:
            raise ValueError(f"cpu: {self.cpu} is below 0")

    @property
    def kind(self) -> PodKind:
        return kind_of(milli(self.cpu), self.gpus, self.share, tuple(sorted(set(self.models))))


def workload_of(pods: Sequence[WrittenPod]) -> TypicalPods:
    """The typical pods of a list: all of them, with their parts of the whole."""
    total = sum(pod.popularity for pod in pods)
    return tuple([TypicalPod(pod.kind, pod.popularity / total) for pod in pods])


def written(workload: TypicalPods) -> tuple[WrittenPod, ...]:
    """Typical pods in their written form."""
    pods = [
        WrittenPod(
            cpu=f"{pod.kind.cpu}m",
            gpus=pod.kind.gpus,
            share=pod.kind.share / WHOLE if pod.kind.gpus else 1.0,
            models=list(pod.kind.models),
            popularity=pod.popularity,
        )
        for pod in workload
    ]
    return tuple(pods)


def written_in_file(argument: str, content: FileContent, cover: float = COVERED) -> tuple[WrittenPod, ...]:
    """The typical pods in a file: a list of kinds, or the pod list of a trace."""
    try:
        found = (
            written(traced_workload(content.value, cover))
            if content.is_table
            else convert(content.value, tuple[WrittenPod, ...])
        )
    except WireError as error:
        raise ArgumentError(argument, f"{content.path}: {error.path or 'at the top'}: {error.message}") from error
    except ValueError as error:
        raise ArgumentError(argument, f"{content.path}: {error}") from error
    if not found:
        raise ArgumentError(argument, f"{content.path}: holds no pods")
    return found


def traced_kind(row: Mapping[str, str]) -> PodKind:
    """The kind of a pod in a pod list of the openb trace; ValueError if the row is malformed."""
    numbers: dict[str, int] = {}
    for name in ("cpu_milli", "num_gpu", "gpu_milli"):
        text = (row.get(name) or "").strip()
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"{name}: {text!r} is not a whole number from 0 up")
        numbers[name] = int(text[:18])
    if numbers["gpu_milli"] > _MILLI or (numbers["num_gpu"] and not numbers["gpu_milli"]):
        raise ValueError(f"gpu_milli: {numbers['gpu_milli']} is not above 0 and at most {_MILLI}")
    models = sorted({word for word in (row.get("gpu_spec") or "").split("|") if word})
    return kind_of(numbers["cpu_milli"], numbers["num_gpu"], numbers["gpu_milli"] / _MILLI, tuple(models))


def traced_workload(rows: Sequence[Mapping[str, str]], cover: float = COVERED) -> TypicalPods:
    """The typical pods of a trace; ValueError if a row is malformed."""
    counts: dict[PodKind, float] = {}
    for number, row in enumerate(rows, start=2):
        try:
            kind = traced_kind(row)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
        counts[kind] = counts.get(kind, 0.0) + 1.0
    return typical(counts, cover)
