"""The scene of a simulation: nodes, their initial pods, and the pods that arrive.

A scene does not depend on policies. Pods arrive as entries, one for each pod or gang. Entries of one shape differ only
in name and time, so that the needs of a pod are computed once per shape.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task, make_task
from tonnage.devices.base import Vendor
from tonnage.manifests.objects import Manifests
from tonnage.model.group import VolcanoQueue
from tonnage.model.node import Node
from tonnage.model.pod import Pod, PodSpec
from tonnage.model.quantity import milli
from tonnage.plugins.fragmentation.typicalpods import COVERED, PodKind, TypicalPods, kind_of, typical
from tonnage.simulator.objects import gang_annotations, make_pod

_NUMBERED = "~"
"""The separator between a node's number and its name."""


class SceneError(ValueError):
    """A workload that does not allow the requested kind of run."""


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """Pods with the same requests, namespace and queue."""

    spec: PodSpec
    cards: int = 0
    share: float = 1.0
    """The part of each card."""
    models: tuple[str, ...] = ()
    """Accepted card models; empty for all."""
    namespace: str = "default"
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def gpus(self) -> float:
        """The cards that one pod asks for; a part of a card counts as a part."""
        return self.cards * self.share

    @property
    def kind(self) -> PodKind:
        """The pod kind, as fragmentation counts it."""
        cpu = sum(milli((container.resources.requests or {}).get("cpu", 0)) for container in self.spec.containers)
        return kind_of(cpu, self.cards, self.share, tuple(sorted(self.models)))

    @property
    def asks_for_something(self) -> bool:
        """Whether pods of the shape request anything."""
        return any(container.resources.requests or container.resources.limits for container in self.spec.containers)


@dataclass(frozen=True, slots=True)
class Entry:
    """A pod or gang that arrives at a time and, once placed, runs for a duration."""

    name: str
    shape: Shape
    time: float = 0.0
    duration: float = float("inf")
    size: int = 1

    @property
    def gpus(self) -> float:
        """The cards that all its pods ask for."""
        return self.shape.gpus * self.size

    def pods(self, suffix: str = "") -> Iterator[Pod]:
        """The pods as objects; the suffix makes the names of repeated entries unique."""
        shape, name = self.shape, self.name + suffix
        annotations = {**shape.annotations} or None
        if self.size == 1:
            yield make_pod(name, shape.namespace, shape.spec, created=self.time, annotations=annotations)
            return
        annotations = {**shape.annotations, **gang_annotations(self.size)}
        for number in range(self.size):
            member = f"{name}-{number}"
            yield make_pod(member, shape.namespace, shape.spec, created=self.time, annotations=annotations, owner=name)


Entries = Callable[[random.Random], Iterator[Entry]]
"""Entries in the order of their arrival, drawn from a random source."""


@dataclass(frozen=True)
class Scene:
    """A cluster and its workload."""

    name: str
    """The workload in a few words."""
    nodes: Sequence[Node]
    fill: Entries
    """Entries in random order, without end."""
    replay: Entries | None = None
    """Entries in order of time; nothing if the workload has no times."""
    horizon: float = 0.0
    """The latest arrival, in virtual seconds."""
    queues: Sequence[VolcanoQueue] = ()
    start: Manifests = field(default_factory=Manifests)
    """The initial objects besides the nodes."""
    popular: Sequence[tuple[Shape, int]] = ()
    """All shapes and their frequencies, the most frequent first."""
    has_gangs: bool = False

    def typical_pods(self, cover: float = COVERED) -> TypicalPods:
        """The typical pods, by which fragmentation is measured; as many kinds as cover that part of all pods."""
        counts: dict[PodKind, float] = {}
        for shape, count in self.popular:
            counts[shape.kind] = counts.get(shape.kind, 0.0) + count
        return typical(counts, cover)

    def starting_from(self, start: Manifests) -> "Scene":
        """The same scene on an existing cluster."""
        return replace(self, start=start)

    def mixed(self, rng: random.Random) -> "Scene":
        """The same scene with nodes in random order, so that ties do not always go to the same node.

        Ties go by name, so each node gets a number in front of its name. An existing cluster keeps its names, because
        pods refer to them.
        """
        if self.start.nodes or self.start.pods:
            return self
        order = list(range(len(self.nodes)))
        rng.shuffle(order)
        width = len(str(len(order)))
        nodes = [
            msgspec.structs.replace(
                node, metadata=msgspec.structs.replace(node.metadata, name=f"{number:0{width}}{_NUMBERED}{node.name}")
            )
            for number, node in zip(order, self.nodes, strict=True)
        ]
        return replace(self, nodes=nodes)

    def cluster(self, vendors: Sequence[Vendor]) -> Cluster:
        """The initial cluster; waiting pods of manifests are not in it, they arrive as entries."""
        cluster = Cluster(vendors)
        for node in self.nodes:
            cluster.upsert_node(node)
        self.start.put_into(cluster, lambda pod: pod.node is not None)
        for queue in self.queues:
            cluster.groups.upsert(queue)
        cluster.settle()
        return cluster


class Tasks:
    """Tasks of entries; the needs of a shape are computed once, and only names change."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self._vendors = vendors
        self._known: dict[Shape, Task] = {}

    def of(self, entry: Entry, suffix: str = "") -> Task:
        """The task of an entry of one pod."""
        known = self._known.get(entry.shape)
        if known is None:
            known = self._known[entry.shape] = make_task(next(entry.pods()), self._vendors)
        metadata = known.pod.metadata
        pod = msgspec.structs.replace(known.pod, metadata=msgspec.structs.replace(metadata, name=entry.name + suffix))
        return msgspec.structs.replace(known, pod=pod, key=pod.key)


def shuffled(entries: Sequence[Entry]) -> Entries:
    """Every entry once in random order, then random entries forever."""

    def come(rng: random.Random) -> Iterator[Entry]:
        mixed = list(entries)
        rng.shuffle(mixed)
        yield from mixed
        while True:
            yield rng.choice(mixed)

    return come


def in_time(entries: Sequence[Entry]) -> Entries:
    """Entries in order of time, ties by name."""
    ordered = sorted(entries, key=lambda entry: (entry.time, entry.name))
    return lambda rng: iter(ordered)


def popularity(entries: Sequence[Entry]) -> list[tuple[Shape, int]]:
    """The shapes by frequency, the most frequent first, ties in order of arrival."""
    counts: dict[Shape, int] = {}
    for entry in entries:
        counts[entry.shape] = counts.get(entry.shape, 0) + entry.size
    return sorted(counts.items(), key=lambda item: -item[1])


def plain_name(node: str) -> str:
    """The name of a node without its number."""
    return node.rpartition(_NUMBERED)[2]
