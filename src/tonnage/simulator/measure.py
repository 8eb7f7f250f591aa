"""Figures of a cluster and a workload: card usage and wait times.

Everything is computed from the cluster's columns or from plain numbers; the module keeps no state.
"""

from collections.abc import Sequence

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY


class Usage(msgspec.Struct, frozen=True):
    """The card usage of a cluster at one moment.

    A card is idle if nothing runs on it, full if its memory, compute or slots are exhausted, and partly used otherwise.
    """

    memory: float
    """Percent of all GPU memory that is allocated."""
    cores: float
    """Percent of all compute that is allocated."""
    idle: int
    partial: int
    full: int
    free_nodes: int
    """Nodes with cards, all of them idle."""

    @property
    def cards(self) -> int:
        return self.idle + self.partial + self.full


def measure(cluster: Cluster) -> Usage:
    """The current usage of all cards."""
    cards = cluster.all_nodes().cards
    total, free = cards.total, cards.free
    exists = cards.model > 0
    used = exists & (free < total).any(axis=0)
    full = used & ((free <= 0) & (total > 0)).any(axis=0)
    whole = total.sum(axis=(1, 2)).tolist()
    left = free.sum(axis=(1, 2)).tolist()
    count, used_count, full_count = int(exists.sum()), int(used.sum()), int(full.sum())
    return Usage(
        memory=percent(whole[MEMORY] - left[MEMORY], whole[MEMORY]),
        cores=percent(whole[CORES] - left[CORES], whole[CORES]),
        idle=count - used_count,
        partial=used_count - full_count,
        full=full_count,
        free_nodes=int((exists.any(axis=0) & ~used.any(axis=0)).sum()),
    )


def percent(part: float, whole: float) -> float:
    """A share in percent; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


class WaitTimes(msgspec.Struct, frozen=True):
    """Wait times of pods, in virtual seconds."""

    mean: float
    p50: float
    p95: float
    max: float


def wait_times(seconds: Sequence[float]) -> WaitTimes:
    """Mean, maximum and nearest-rank percentiles; all 0 without pods."""
    if not seconds:
        return WaitTimes(0.0, 0.0, 0.0, 0.0)
    ordered = sorted(seconds)
    count = len(ordered)
    median, almost = (ordered[-(-count * part // 100) - 1] for part in (50, 95))
    return WaitTimes(*(round(value, 1) for value in (sum(ordered) / count, median, almost, ordered[-1])))


class SampledPercent(msgspec.Struct, frozen=True):
    """A percentage sampled over time: its mean and its final value."""

    mean: float
    final: float


class PodCounts(msgspec.Struct, frozen=True):
    """Pods by how far they got."""

    arrived: int
    placed: int
    finished: int
    running: int
    waiting: int


class CardsByUse(msgspec.Struct, frozen=True):
    """Cards by their usage at the end."""

    idle: int
    partial: int
    full: int


class WaitReason(msgspec.Struct, frozen=True):
    """The number of pods that waited mainly for one reason."""

    reason: str
    pods: int


class Summary(msgspec.Struct, frozen=True):
    """The summary of a replay; the same input gives the same summary, however fast it ran."""

    duration: float
    """Virtual seconds."""
    pods: PodCounts
    wait_seconds: WaitTimes
    """Over all pods that arrived; pods that still wait count with their time so far."""
    gpu_memory_percent: SampledPercent
    gpu_cores_percent: SampledPercent
    fragmentation_percent: SampledPercent
    """Free cards that the typical pods cannot use, of all cards."""
    cards: CardsByUse
    free_nodes: int
    decisions: int
    waited_for: list[WaitReason]
    """The most frequent first."""
    problems: int
