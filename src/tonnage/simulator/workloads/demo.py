"""The demo workload: a synthetic GPU cluster of several teams, drawn from a seed.

Nodes come in pools of different cards and register them as HAMi's device plugin does. Arrivals keep the demand for
cards around the capacity, in a slow wave: the cluster fills within the first two hours, queues form at the crest and
drain in the trough.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.selection import Taint, Toleration
from tonnage.simulator.objects import (
    GPU,
    GPU_CORES,
    GPU_MEMORY,
    GPU_PERCENTAGE,
    USE_TYPE,
    Amounts,
    make_card,
    make_node,
    make_pod,
    make_spec,
)

SHARES_PER_CARD = 10
ZONES = ("zone-a", "zone-b", "zone-c")

MIDDLE, SWING, PERIOD = 0.95, 0.10, 6 * 3600.0
"""Demand as a share of all cards: the mean, the amplitude, and the period in seconds."""
_MINUTE = 60.0
_SHORTEST, _LONGEST = 3 * _MINUTE, 12 * 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class DemoPool:
    """A pool of equal nodes."""

    name: str
    card: str
    memory: int
    """MiB per card."""
    share: float
    """The share of all nodes."""
    cpus: int
    """Per card."""
    gibibytes: int
    """Node memory per card."""
    taint: Taint | None = None


RESERVED = Taint(key="dedicated", value="inference", effect="NoSchedule")
POOLS = (
    DemoPool("h100", "NVIDIA H100 80GB HBM3", 81559, 0.45, 24, 240),
    DemoPool("a100", "NVIDIA A100-SXM4-40GB", 40960, 0.30, 16, 120),
    DemoPool("v100", "NVIDIA-Tesla V100-SXM2-32GB", 32768, 0.15, 12, 90),
    DemoPool("t4", "NVIDIA-Tesla T4", 15360, 0.10, 8, 48, RESERVED),
)


@dataclass(frozen=True, slots=True)
class DemoPods:
    """A kind of pods; `frequency` is relative to the other kinds, durations are lognormal."""

    name: str
    frequency: float
    minutes: float
    """The median duration."""
    spread: float
    priority: int


NOTEBOOK = DemoPods("notebook", 34, 35, 0.8, 0)
INFERENCE = DemoPods("infer", 26, 60, 0.7, 1000)
TUNING = DemoPods("tune", 16, 40, 0.8, 100)
TRAINING = DemoPods("train", 14, 50, 0.9, 100)
PRETRAINING = DemoPods("pretrain", 4, 75, 0.7, 500)
BATCH = DemoPods("batch", 5, 15, 0.8, 0)
KINDS = (NOTEBOOK, INFERENCE, TUNING, TRAINING, PRETRAINING, BATCH)
TEAMS = ("team-a", "team-b", "team-c", "team-d", "team-e")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that arrives at a virtual time and, once placed, runs for a duration."""

    time: float
    duration: float
    pod: Pod


@dataclass(frozen=True, slots=True)
class _Shape:
    """The requests of a kind of pods."""

    kind: DemoPods
    duration: float
    cards: float
    """The number of average cards that the pod occupies."""
    limits: dict[str, str]
    type: str | None = None


def pool_sizes(count: int) -> list[tuple[DemoPool, int]]:
    """The number of nodes of each pool by its share, largest remainders first; empty pools are omitted."""
    exact = [pool.share * count for pool in POOLS]
    sizes = [math.floor(size) for size in exact]
    for i in sorted(range(len(POOLS)), key=lambda i: sizes[i] - exact[i])[: count - sum(sizes)]:
        sizes[i] += 1
    return [(pool, size) for pool, size in zip(POOLS, sizes, strict=True) if size]


def _uuid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def demo_nodes(count: int, gpus: int, rng: random.Random) -> list[Node]:
    """Nodes with so many cards each, pool by pool."""
    width = max(3, len(str(count)))
    return [
        _node(pool, f"{pool.name}-{number:0{width}d}", ZONES[number % len(ZONES)], gpus, rng)
        for pool, size in pool_sizes(count)
        for number in range(1, size + 1)
    ]


def _node(pool: DemoPool, name: str, zone: str, gpus: int, rng: random.Random) -> Node:
    cards = [
        make_card(f"GPU-{_uuid(rng)}", index, pool.card, pool.memory, SHARES_PER_CARD, index * 2 // gpus)
        for index in range(gpus)
    ]
    offered: Amounts = {
        "cpu": str(pool.cpus * max(gpus, 1)),
        "memory": f"{pool.gibibytes * max(gpus, 1)}Gi",
        "pods": "110",
        GPU: str(gpus * SHARES_PER_CARD),
    }
    labels = {"pool": pool.name, "topology.kubernetes.io/zone": zone}
    return make_node(name, offered, cards, labels=labels, taint=pool.taint, uid=_uuid(rng))


def target(time: float) -> float:
    """The target demand at a time, as a share of all cards."""
    return MIDDLE + SWING * math.sin(2 * math.pi * time / PERIOD)


def _shape(kind: DemoPods, pools: list[tuple[DemoPool, int]], gpus: int, rng: random.Random) -> _Shape:
    duration = min(max(rng.lognormvariate(math.log(kind.minutes * _MINUTE), kind.spread), _SHORTEST), _LONGEST)
    if kind is BATCH or gpus < 1:
        return _Shape(kind, duration, 0.0, {"cpu": str(rng.choice((1, 2, 4))), "memory": f"{rng.choice((2, 4, 8))}Gi"})
    if kind in (NOTEBOOK, INFERENCE):
        sizes = (4000, 6000, 8000, 12000, 16000, 20000) if kind is NOTEBOOK else (2000, 3000, 5000, 7000)
        memory, cores = rng.choice(sizes), rng.choice((10, 15, 20, 30))
        typical = sum(pool.memory * size for pool, size in pools) / sum(size for _, size in pools)
        limits = {GPU: "1", GPU_MEMORY: str(memory), GPU_CORES: str(cores), "cpu": "1", "memory": "6Gi"}
        return _Shape(kind, duration, max(memory / typical, cores / 100), limits)
    if kind is TUNING:
        percentage = rng.choice((25, 25, 50))
        limits = {GPU: "1", GPU_PERCENTAGE: str(percentage), GPU_CORES: str(percentage)}
        limits |= {"cpu": str(percentage // 12), "memory": f"{percentage // 2}Gi"}
        return _Shape(kind, duration, percentage / 100, limits)
    count = _cards(gpus, rng) if kind is PRETRAINING else 1
    type_: str | None = None
    if count <= 2 and rng.random() < 0.15:
        # Weighted by the square of the size, so that small pools are not overloaded.
        named = [(pool.name.upper(), size**2) for pool, size in pools if pool.taint is None]
        type_ = rng.choices([name for name, _ in named], [weight for _, weight in named])[0]
    limits = {GPU: str(count), "cpu": str(8 * count), "memory": f"{60 * count}Gi"}
    return _Shape(kind, duration, float(count), limits, type_)


def _cards(gpus: int, rng: random.Random) -> int:
    """The cards of a big pod; seldom a whole node, because empty nodes are rare under high demand."""
    sizes = {1: 2.0, 2: 8.0, 4: 3.0, 8: 1.0}
    weights = {size: weight * (0.1 if size == gpus else 1.0) for size, weight in sizes.items() if size <= gpus}
    return rng.choices(list(weights), list(weights.values()))[0]


def _pod(shape: _Shape, number: int, time: float, rng: random.Random) -> Pod:
    tolerations = [Toleration(key=RESERVED.key, operator="Equal", value=RESERVED.value, effect=RESERVED.effect)]
    spec = make_spec(
        {**shape.limits},
        priority=shape.kind.priority,
        tolerations=tolerations if shape.kind is INFERENCE else None,
    )
    return make_pod(
        f"{shape.kind.name}-{number:05d}",
        rng.choice(TEAMS),
        spec,
        created=time,
        uid=_uuid(rng),
        labels={"app": shape.kind.name},
        annotations={USE_TYPE: shape.type} if shape.type else None,
    )


def _mean_work(pools: list[tuple[DemoPool, int]], gpus: int) -> float:
    """Card-seconds of an average pod, from a separate sample, so that the caller's random numbers are unaffected."""
    rng = random.Random(0)
    kinds = rng.choices(KINDS, [kind.frequency for kind in KINDS], k=4000)
    shapes = [_shape(kind, pools, gpus, rng) for kind in kinds]
    return sum(shape.cards * shape.duration for shape in shapes) / len(shapes)


def demo_arrivals(nodes_count: int, gpus: int, rng: random.Random) -> Iterator[Arrival]:
    """Endless arrivals for a cluster of `demo_nodes` of the same size."""
    if nodes_count < 1:
        return
    pools = pool_sizes(nodes_count)
    capacity = float(nodes_count * max(gpus, 1))
    mean_gap = (_mean_work(pools, gpus) or 10 * _MINUTE) / (MIDDLE * capacity)
    frequencies = [kind.frequency for kind in KINDS]
    busy: list[tuple[float, float]] = []
    """When each pod would end if it never waited, and its cards."""
    wanted, time, number = 0.0, 0.0, 0
    while True:
        # Arrive faster below the target demand and slower above it, so that small clusters stay near it too.
        haste = min(max(1 + 3 * (target(time) - wanted / capacity), 0.3), 3.0)
        time += rng.expovariate(haste / mean_gap)
        while busy and busy[0][0] <= time:
            wanted -= heapq.heappop(busy)[1]
        number += 1
        shape = _shape(rng.choices(KINDS, frequencies)[0], pools, gpus, rng)
        wanted += shape.cards
        heapq.heappush(busy, (time + shape.duration, shape.cards))
        yield Arrival(time, shape.duration, _pod(shape, number, time, rng))
