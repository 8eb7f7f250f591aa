"""Figures of a workload: wait times, and the summary of a replay."""

from collections.abc import Sequence

import msgspec


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
