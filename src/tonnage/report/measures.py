"""The measures of a report: their names, units and direction."""

from dataclasses import dataclass

from tonnage.report.pages import text
from tonnage.simulator.studies.comparison import AVERAGE
from tonnage.simulator.studies.results import Curve, PolicyResult, Results


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of a policy over a simulation."""

    name: str
    title: str
    meaning: str
    unit: str = ""
    """% or nothing, for plain numbers."""
    more_is_better: bool = False
    gains_by_idling: bool = False
    """Whether a policy that places less may look better by it."""

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
    "fragmentation_of_all",
    "Fragmentation",
    "Free GPU that the typical pods cannot use, in percent of all GPUs.",
    "%",
    gains_by_idling=True,
)
FAILED = Measure("pods_failed", "Pods failed", "Pods that were dropped because they fitted nowhere.")
NODES_FREE = Measure(
    "nodes_free", "Nodes free", "Nodes with GPUs of which none is in use.", more_is_better=True, gains_by_idling=True
)
MEASURES = (
    ALLOCATED,
    FRAGMENTATION,
    Measure(
        "fragmentation_of_free",
        "Fragmentation of free GPU",
        "Free GPU that the typical pods cannot use, in percent of the free GPUs.",
        "%",
        gains_by_idling=True,
    ),
    FAILED,
    Measure("pods_waiting", "Pods waiting", "Pods that have arrived and not started."),
    NODES_FREE,
    Measure("gpus_free", "GPUs free", "GPUs of which nothing is in use.", more_is_better=True, gains_by_idling=True),
    Measure(
        "cpu_stranded",
        "CPU stranded",
        "Free CPU on nodes whose GPUs are full, in percent of all.",
        "%",
        gains_by_idling=True,
    ),
)


def present(results: Results) -> list[Measure]:
    """The measures that at least one policy has."""
    return [measure for measure in MEASURES if any(measure.curve(policy) for policy in results.policies.values())]


def fills(results: Results) -> bool:
    """Whether checkpoints are percent of arrived demand, and not times."""
    return results.mode == "fill"


def checkpoint_name(results: Results) -> str:
    """The checkpoint of the comparison, as the end of a sentence."""
    if results.compared_at == AVERAGE:
        return "on average over time"
    return f"at {text.percent(float(results.compared_at), 0)} arrived demand"
