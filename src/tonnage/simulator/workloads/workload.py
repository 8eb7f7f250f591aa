"""The workload file: node pools, pod classes, arrivals and durations in a small YAML document.

The module defines the fields and the validation.
"""

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

import msgspec

from tonnage.config.document import Form, Part, read_document
from tonnage.config.notes import ConfigError, Notes, advice, in_order
from tonnage.config.source import place_of
from tonnage.config.strict import read
from tonnage.manifests.written import TextError
from tonnage.model.duration import DurationError
from tonnage.model.duration import seconds as read_duration
from tonnage.model.group import Quantities
from tonnage.model.quantity import QuantityError
from tonnage.model.resources import amount

FORM = Form("a workload", "nodes and pods", ("workload.yaml",))
_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Cards = Annotated[int, msgspec.Meta(ge=0, le=64)]
_Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
_Number = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
Seconds = str | float


class NodePool(msgspec.Struct, frozen=True, rename="camel"):
    """A pool of equal nodes."""

    name: _Name
    count: _Count
    cpu: str | int
    memory: str
    gpus: _Cards = 0
    model: str = "GPU"
    gpu_memory: _Positive = 81920
    """MiB per card."""


class Span(msgspec.Struct, frozen=True):
    """A duration: fixed, or drawn from a distribution."""

    distribution: Literal["fixed", "uniform", "exponential", "lognormal"] = "fixed"
    mean: Seconds | None = None
    median: Seconds | None = None
    sigma: _Number = 1.0
    """The spread of a lognormal distribution's logarithm."""
    low: Seconds | None = None
    high: Seconds | None = None

    def draw(self, rng: random.Random) -> float:
        """Seconds."""
        low = in_seconds(self.low or 0.0)
        high = math.inf if self.high is None else in_seconds(self.high)
        match self.distribution:
            case "uniform":
                return rng.uniform(low, high)
            case "exponential":
                drawn = rng.expovariate(1 / in_seconds(self.mean or 0.0))
            case "lognormal":
                drawn = rng.lognormvariate(math.log(in_seconds(self.median or 0.0)), self.sigma)
            case _:
                drawn = in_seconds(self.mean or 0.0)
        return min(max(drawn, low), high)


class WorkloadClass(msgspec.Struct, frozen=True, rename="camel"):
    """A class of equal pods."""

    name: _Name
    share: _Number
    """The relative frequency among the classes."""
    duration: Span
    cpu: str | int = 1
    memory: str = "1Gi"
    gpus: _Cards | list[_Cards] = 0
    """Cards per pod; of a list each pod draws one."""
    gpu_memory: _Count | list[_Count] = 0
    """MiB of each card; 0 for a whole card."""
    gpu_cores: _Percent = 0
    models: list[str] = []
    gang: _Positive | list[_Positive] = 1
    """The size of a gang."""
    queue: str = ""
    namespace: str = "default"
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0
    preemptible: bool = False
    """Whether pods may be evicted; evicted pods run again from the beginning."""


class QueueSection(msgspec.Struct, frozen=True):
    """A queue and its share."""

    name: _Name
    weight: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1
    deserved: dict[str, str | int | float] | None = None
    limit: dict[str, str | int | float] | None = None


class Workload(msgspec.Struct, frozen=True):
    """The content of the file."""

    pods: list[WorkloadClass]
    arrivals: Span
    """The time between arrivals."""
    nodes: list[NodePool] = []
    queues: list[QueueSection] = []
    duration: Seconds = "24h"
    """How long pods arrive."""
    seed: _Count = 0
    source: str = ""


def read_workload(text: str, source: str) -> Workload:
    """The workload in a text; ConfigError with the position of every error."""
    notes, found = Notes(), None
    try:
        root = read_document(text, source, notes, FORM)
        if root is not None:
            found = _read(root, source, notes)
    except TextError as error:
        notes.error(place_of(error), error.message)
    if notes.errors or found is None:
        raise ConfigError(source, in_order(notes.errors), [])
    return found


def _read(root: Part, source: str, notes: Notes) -> Workload | None:
    found, fields = read(root, Workload, "a workload", notes), root.fields()
    if found is None or fields is None:
        return None
    check = _Check(notes)
    check.time(fields["duration"][1] if "duration" in fields else root, found.duration, "duration")
    check.span(fields["arrivals"][1], found.arrivals, may_be_nothing=False)
    for name in ("nodes", "pods", "queues"):
        check.names(fields[name][1] if name in fields else root, getattr(found, name), name)
    for part, pod in zip(fields["pods"][1].items() or (), found.pods, strict=False):
        check.pods(part, pod, found)
    for part, pool in zip((fields["nodes"][1].items() if "nodes" in fields else None) or (), found.nodes, strict=False):
        check.amounts(part, {"cpu": pool.cpu, "memory": pool.memory})
    for part, queue in zip(
        (fields["queues"][1].items() if "queues" in fields else None) or (), found.queues, strict=False
    ):
        check.amounts(part, {**(queue.deserved or {}), **(queue.limit or {})})
    return msgspec.structs.replace(found, source=source)


class _Check:
    """Validation beyond the types of the fields."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def names(self, part: Part, things: Sequence[NodePool | WorkloadClass | QueueSection], what: str) -> None:
        names = [thing.name for thing in things]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            self._notes.error(part.position, f"{what}: the name {twice[0]} is there twice")
        if not names and what == "pods":
            self._notes.error(part.position, "pods: there are none")

    def pods(self, part: Part, pod: WorkloadClass, workload: Workload) -> None:
        fields = part.fields() or {}
        self.amounts(part, {"cpu": pod.cpu, "memory": pod.memory})
        if "duration" in fields:
            self.span(fields["duration"][1], pod.duration)
        queues = [queue.name for queue in workload.queues]
        if pod.queue and pod.queue not in queues:
            message = f"there is no queue {pod.queue}{advice(pod.queue, queues)}"
            self._notes.error(fields["queue"][1].position, message)
        models = sorted({pool.model for pool in workload.nodes if pool.gpus})
        for model in pod.models if models else ():
            if model not in models:
                message = f"no pool has GPUs of model {model}{advice(model, models)}"
                self._notes.error(fields["models"][1].position, message)
        if workload.nodes and not any(_can_take(pool, pod) for pool in workload.nodes):
            self._notes.error(part.position, f"pods of class {pod.name} are larger than any node")

    def span(self, part: Part, span: Span, may_be_nothing: bool = True) -> None:
        needs = {"fixed": ("mean",), "uniform": ("low", "high"), "exponential": ("mean",), "lognormal": ("median",)}
        values: dict[str, float] = {}
        for name in ("mean", "median", "low", "high"):
            value = getattr(span, name)
            if value is not None:
                values[name] = self.time(part, value, name)
            elif name in needs[span.distribution]:
                self._notes.error(part.position, f"a duration that is {span.distribution} needs {name}")
        if values.get("low", 0.0) > values.get("high", math.inf):
            self._notes.error(part.position, "low is above high")
        least = [values[name] for name in needs[span.distribution] if name in values and name != "low"]
        if least and min(least) <= 0 and not (may_be_nothing and span.distribution == "fixed"):
            self._notes.error(part.position, f"a duration that is {span.distribution} must be above 0")

    def time(self, part: Part, value: Seconds, name: str) -> float:
        try:
            found = in_seconds(value)
        except DurationError as error:
            self._notes.error(part.position, f"{name}: {error}")
            return 1.0
        if found < 0:
            self._notes.error(part.position, f"{name}: {value} is below zero")
        return found

    def amounts(self, part: Part, amounts: Quantities) -> None:
        for name, value in amounts.items():
            try:
                if amount(name, value) < 0:
                    self._notes.error(part.position, f"{name}: {value} is below zero")
            except QuantityError as error:
                self._notes.error(part.position, f"{name}: {error}")


@lru_cache(maxsize=1024)
def in_seconds(value: Seconds) -> float:
    """A duration in its written form; DurationError if malformed."""
    if isinstance(value, str) and value.endswith("d") and value[:-1].replace(".", "", 1).isdigit():
        return float(value[:-1]) * 86400
    return read_duration(value) if isinstance(value, str) else float(value)


def choices(value: int | list[int]) -> list[int]:
    """The numbers from which each pod draws one."""
    return value if isinstance(value, list) else [value]


def _can_take(pool: NodePool, pod: WorkloadClass) -> bool:
    try:
        room = all(amount(name, getattr(pool, name)) >= amount(name, getattr(pod, name)) for name in ("cpu", "memory"))
    except QuantityError:
        return True
    cards = pool.gpus >= min(choices(pod.gpus)) and pool.gpu_memory >= min(choices(pod.gpu_memory))
    return room and (cards or not any(choices(pod.gpus)))
