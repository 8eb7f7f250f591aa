"""Fragments counted kind by kind and node by node in plain loops, to compare arrays with; and published examples."""

from collections.abc import Sequence
from math import exp

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS
from tonnage.plugins.fragmentation.typicalpods import PodKind, TypicalPod, TypicalPods, kind_of
from tonnage.plugins.helpers.cardshares import WHOLE

Pods = tuple[tuple[int, int, int, str, float], ...]
"""Thousandths of CPUs, thousandths of a card, cards, model, percent of all pods."""


def workload(pods: Pods) -> TypicalPods:
    return tuple(
        TypicalPod(kind_of(cpu, gpus, share / 1000, (model,) if model else ()), percent / 100)
        for cpu, share, gpus, model, percent in pods
    )


def naive_fragments(free: Sequence[int], types: Sequence[str], cpu: int, usual: TypicalPods) -> float:
    """The fragments of one node, in millionths of a card, by the definition."""
    return sum(pod.popularity * fragments_to(pod.kind, free, types, cpu) for pod in usual)


def fragments_to(kind: PodKind, free: Sequence[int], types: Sequence[str], cpu: int) -> int:
    will_do = kind.accepted(types)
    usable = [share for share, accepted in zip(free, will_do, strict=True) if accepted and share >= kind.share]
    if kind.gpus == 0 or kind.cpu > cpu or len(usable) < kind.gpus:
        return sum(free)
    return sum(free) - sum(usable)


def free_shares(cluster: Cluster, name: str) -> list[int]:
    """The free share of each card of a node, by the rule that is written in the documentation."""
    state, columns = cluster.nodes[name], cluster.columns
    result = []
    for position, device in enumerate(state.devices):
        free = columns.card_free[:, position, state.row].tolist()
        parts = [
            max(0, have) * WHOLE // total
            for have, total in ((free[MEMORY], device.memory), (free[CORES], device.cores))
            if total
        ]
        usable = free[SLOTS] > 0 and device.healthy and device.uuid not in state.cordoned
        result.append(min([WHOLE, *parts]) if usable else 0)
    return result


def gradient(before: float, after: float) -> int:
    """The published score of what is gained, in millionths of a card."""
    # A little is added, so that nothing lost is nothing lost whatever the order of the sums.
    return int(100 / (1 + exp(-(before - after) / WHOLE - 1e-5)))


# The examples of the published tests: 35 kinds with cards, and 31 kinds of which some ask for none.
WITH_CARDS: Pods = (
    (6000, 465, 1, "", 9.33),
    (8000, 440, 1, "2080", 9.15),
    (8000, 475, 1, "T4", 8.76),
    (8000, 440, 1, "P100", 8.72),
    (2000, 465, 1, "", 8.68),
    (12000, 900, 1, "", 8.65),
    (4000, 900, 1, "", 8.43),
    (16000, 678, 1, "T4", 8.36),
    (8000, 500, 1, "", 8.29),
    (6000, 511, 1, "", 8.11),
    (14000, 1000, 2, "2080", 0.54),
    (4000, 1000, 1, "2080", 0.43),
    (32000, 1000, 2, "T4", 0.43),
    (16000, 1000, 1, "V100M16", 0.40),
    (64000, 1000, 2, "", 0.40),
    (10000, 1000, 2, "", 0.40),
    (11400, 1000, 1, "T4", 0.36),
    (16000, 1000, 1, "T4", 0.36),
    (4000, 1000, 2, "", 0.36),
    (14000, 1000, 2, "V100M16", 0.36),
    (8000, 1000, 4, "", 0.36),
    (16000, 1000, 2, "", 0.32),
    (2000, 1000, 1, "T4", 0.32),
    (6000, 1000, 1, "", 0.32),
    (4000, 1000, 1, "", 0.32),
    (5000, 1000, 1, "", 0.32),
    (32000, 1000, 4, "V100M16", 0.32),
    (32000, 1000, 2, "", 0.32),
    (24000, 1000, 8, "2080", 0.32),
    (40000, 1000, 4, "", 0.29),
    (32000, 1000, 8, "", 0.29),
    (32000, 1000, 1, "T4", 0.29),
    (16000, 1000, 1, "", 0.25),
    (7000, 1000, 1, "V100M16", 0.25),
    (24000, 1000, 1, "T4", 0.25),
)
SOME_WITHOUT: Pods = (
    (15700, 1000, 1, "", 28.69),
    (11900, 1000, 1, "", 18.93),
    (11400, 1000, 1, "", 12.27),
    (1000, 0, 0, "", 7.36),
    (18710, 1000, 1, "", 4.85),
    (8200, 1000, 1, "", 3.79),
    (16400, 1000, 1, "", 3.31),
    (9810, 1000, 1, "", 1.97),
    (15200, 1000, 1, "", 1.87),
    (11200, 1000, 1, "", 1.81),
    (14200, 1000, 1, "", 1.76),
    (12000, 0, 0, "", 1.65),
    (14900, 1000, 1, "", 1.39),
    (60200, 1000, 4, "", 1.23),
    (64200, 1000, 8, "", 1.07),
    (32200, 1000, 4, "", 1.01),
    (17400, 1000, 2, "", 0.91),
    (30200, 1000, 2, "", 0.69),
    (16000, 1000, 1, "", 0.64),
    (15000, 1000, 1, "", 0.59),
    (64000, 1000, 8, "", 0.53),
    (15000, 0, 0, "", 0.53),
    (11910, 1000, 1, "", 0.53),
    (120200, 1000, 8, "", 0.48),
    (11300, 1000, 1, "", 0.37),
    (30000, 1000, 2, "", 0.32),
    (9800, 1000, 1, "", 0.32),
    (8000, 1000, 1, "", 0.32),
    (2000, 1000, 1, "", 0.27),
    (2000, 80, 1, "", 0.27),
    (1000, 1000, 1, "", 0.27),
)
