"""AgentMetrics: Tonnage's own metrics of a node, read at the moment of a scrape."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric

from tonnage import __version__
from tonnage.kube.supervision import failures
from tonnage.observability import catalog
from tonnage.observability.catalog import read

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

    def figures(self) -> Iterator[tuple[str, float | Mapping[str, float] | Mapping[tuple[str, str], float]]]:
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


class AgentMetrics:
    """The agent's metrics as a registry of their own."""

    def __init__(self, counts: AgentCounts) -> None:
        self._counts = counts
        self.registry = CollectorRegistry()
        build = catalog.METRICS["tonnage_build_info"]
        for name in ("hami_build_info", "tonnage_build_info"):
            Gauge(name, build.help, build.labels, registry=self.registry).labels(__version__).set(1)
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        for name, value in self._counts.figures():
            yield read(name, value)

    def text(self) -> bytes:
        return generate_latest(self.registry)
