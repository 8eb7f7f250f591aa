"""Tonnage's own metrics of a node, read at the moment of a scrape."""

from collections import Counter
from collections.abc import Iterator, Mapping

from tonnage import __version__
from tonnage.kube.supervision import failures
from tonnage.observability.catalog import METRICS, MetricSpec
from tonnage.observability.exposition import label_text
from tonnage.observability.processmetrics import PROCESS_METRICS, process_figures

_BUILD = METRICS["tonnage_build_info"]
_SPECS = {"hami_build_info": _BUILD, **METRICS, **PROCESS_METRICS}

Figures = float | Mapping[str, float] | Mapping[tuple[str, str], float]
"""A metric's value, or one for each value of its label or labels."""

GIVEN, REFUSED = "given", "refused"
HEALTHY, UNHEALTHY = "healthy", "unhealthy"


class AgentCounts:
    """What the parts of the agent count as things happen."""

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        """What was noted in the log, by event."""
        self.answers: Counter[str] = Counter({GIVEN: 0, REFUSED: 0})
        self.xids: Counter[tuple[str, str]] = Counter()
        """By card and XID."""
        self.left_out: dict[int, str] = {}
        """Cards that are not offered, and why."""
        self.is_registered = False
        self.is_invented = False
        self.health: Counter[str] = Counter({HEALTHY: 0, UNHEALTHY: 0})
        self.uncontrolled = 0
        self.limited = 0
        self.blocked = 0
        self.regions: Counter[str] = Counter()
        self.removed = 0

    def figures(self) -> Iterator[tuple[str, Figures]]:
        """Every metric with its values."""
        yield "tonnage_agent_cards", self.health
        yield "tonnage_agent_cards_left_out", {(str(index), why): 1.0 for index, why in self.left_out.items()}
        yield "tonnage_agent_cards_invented", float(self.is_invented)
        yield "tonnage_agent_card_errors_total", self.xids
        yield "tonnage_agent_registered", float(self.is_registered)
        yield "tonnage_agent_answers_total", self.answers
        yield "tonnage_agent_notes_total", self.notes
        yield "tonnage_agent_containers_uncontrolled", self.uncontrolled
        yield "tonnage_agent_containers_limited", self.limited
        yield "tonnage_agent_containers_blocked", self.blocked
        yield "tonnage_agent_regions", self.regions
        yield "tonnage_agent_folders_removed_total", self.removed
        yield "tonnage_task_failures_total", failures


def metrics_text(counts: AgentCounts) -> str:
    """The agent's own metrics and those of its process, in Prometheus' text format."""
    figures: dict[str, Figures] = {name: {__version__: 1.0} for name in ("hami_build_info", "tonnage_build_info")}
    figures |= process_figures()
    figures |= counts.figures()
    return "".join(_lines(name, _SPECS[name], value) for name, value in figures.items())


def _lines(name: str, spec: MetricSpec, value: Figures) -> str:
    head = f"# HELP {name} {spec.help}\n# TYPE {name} {spec.kind}\n"
    if not isinstance(value, Mapping):
        return f"{head}{name} {float(value)}\n"
    lines = [
        f"{name}{{{label_text(spec.labels, (one,) if isinstance(one, str) else one)}}} {float(number)}\n"
        for one, number in value.items()
    ]
    return head + "".join(lines)
