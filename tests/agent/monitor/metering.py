"""The agent's metrics as the page of metrics must show them."""

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.extender.recording import described
from tonnage.agent.monitor import hamimetrics
from tonnage.agent.monitor.agentmetrics import AgentCounts, metrics_text


def of_the_agent() -> set[tuple[str, str, frozenset[str]]]:
    """Name, type and labels of every metric."""
    counts = AgentCounts()

    def use() -> None:
        counts.left_out[0] = "why"
        counts.xids["GPU-0", "79"] += 1
        counts.notes["refused"] += 1
        counts.regions["read"] += 1

    found: set[tuple[str, str, frozenset[str]]] = described(_Page(counts), use)
    families = (*hamimetrics.NEW, *hamimetrics.OLD)
    return found | {(one.name, "gauge", frozenset(one.labels) - {"zone"}) for one in families}


class _Page:
    """The agent's page, read as Prometheus reads it."""

    def __init__(self, counts: AgentCounts) -> None:
        self._counts = counts

    def collect(self) -> list[Metric]:
        return list(text_string_to_metric_families(metrics_text(self._counts)))
