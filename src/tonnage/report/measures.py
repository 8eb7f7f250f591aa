"""The measures of a report: their names, units and direction."""

from dataclasses import dataclass
from itertools import pairwise

from tonnage.report.pages import text
from tonnage.simulator.studies.results import Checkpoint, Curve, PolicyResult, Results, SeedSpread

FULL_DEMAND = "100"
"""The checkpoint at which policies are compared in a fill."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of a policy over a simulation."""

    name: str
    title: str
    meaning: str
    unit: str = ""
    """% or nothing, for plain numbers."""
    more_is_better: bool = False
    adds_up: bool = False
    """Whether the last value suffices, because it counts everything so far."""

    def curve(self, policy: PolicyResult) -> Curve:
        curve: Curve = getattr(policy, self.name)
        return curve

    def written(self, value: float, digits: int = 2) -> str:
        return text.percent(value, digits) if self.unit else text.number(value, 0 if value >= 100 else 1)

    @property
    def suffix(self) -> str:
        return f"{text.NARROW}%" if self.unit else ""


ALLOCATED = Measure("gpu_allocated", "GPU allocated", "Share of all GPUs that pods hold.", "%", True)
FRAGMENTATION = Measure(
    "fragmentation_of_all", "Fragmentation", "Free GPU that the typical pods cannot use, in percent of all GPUs.", "%"
)
FAILED = Measure("pods_failed", "Pods failed", "Pods that were dropped because they fitted nowhere.", adds_up=True)
NODES_FREE = Measure("nodes_free", "Nodes free", "Nodes with GPUs of which none is in use.", more_is_better=True)
MEASURES = (
    ALLOCATED,
    FRAGMENTATION,
    Measure(
        "fragmentation_of_free",
        "Fragmentation of free GPU",
        "Free GPU that the typical pods cannot use, in percent of the free GPUs.",
        "%",
    ),
    FAILED,
    Measure("pods_waiting", "Pods waiting", "Pods that have arrived and not started."),
    NODES_FREE,
    Measure("gpus_free", "GPUs free", "GPUs of which nothing is in use.", more_is_better=True),
    Measure("cpu_stranded", "CPU stranded", "Free CPU on nodes whose GPUs are full, in percent of all.", "%"),
)


def present(results: Results) -> list[Measure]:
    """The measures that at least one policy has."""
    return [measure for measure in MEASURES if any(measure.curve(policy) for policy in results.policies.values())]


def fills(results: Results) -> bool:
    """Whether checkpoints are percent of arrived demand, and not times."""
    return results.mode == "fill"


def ordered(curve: Curve) -> list[tuple[float, SeedSpread]]:
    """A curve's points from left to right."""
    return sorted(((float(at), value) for at, value in curve.items()), key=lambda point: point[0])


def compared_at(results: Results) -> Checkpoint | None:
    """The checkpoint at which policies are compared; nothing if their averages over time are."""
    if not fills(results):
        return None
    curves = [ALLOCATED.curve(policy) for policy in results.policies.values()]
    shared = set.intersection(*map(set, curves)) if curves else set()
    return FULL_DEMAND if FULL_DEMAND in shared else max(shared, key=float, default=None)


def checkpoint_name(results: Results) -> str:
    """The checkpoint of the comparison, as the end of a sentence."""
    at = compared_at(results)
    return f"at {text.number(float(at))}{text.NARROW}% arrived demand" if at else "on average over time"


def figure(measure: Measure, curve: Curve, at: Checkpoint | None) -> SeedSpread | None:
    """The figure that represents a curve: at a checkpoint, at the end, or on average over time."""
    if not curve:
        return None
    if at is not None:
        return curve.get(at)
    points = ordered(curve)
    if measure.adds_up or len(points) == 1:
        return points[-1][1]
    return _average(points)


def _average(points: list[tuple[float, SeedSpread]]) -> SeedSpread:
    """The mean over time. Its deviation is estimated by its upper bound, the mean of the deviations."""
    length = points[-1][0] - points[0][0]
    mean = deviation = 0.0
    for (start, first), (end, second) in pairwise(points):
        part = (end - start) / length / 2
        mean += part * (first.mean + second.mean)
        deviation += part * (first.sd + second.sd)
    return SeedSpread(mean, deviation)
