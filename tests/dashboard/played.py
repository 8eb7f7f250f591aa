"""PlayedSource: a cluster in memory that the dashboard looks at, while a test or a benchmark changes it."""

from collections.abc import Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.dashboard.source import ClusterSource
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.plugins.defaults import default_plugins


class PlayedSource(ClusterSource):
    """A cluster with HAMi's policies and a clock that stands still unless it is set."""

    title, policy = "an invented cluster", "binpack/spread"

    def __init__(self, cluster: Cluster, at: float) -> None:
        self._cluster = cluster
        self._plugins = default_plugins()
        self.at = self.was_seen = at
        self.placements: dict[str, Decision] = {}

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    @property
    def plugins(self) -> Sequence[Plugin]:
        return self._plugins

    @property
    def actions(self) -> Sequence[str]:
        return ("allocate",)

    def advance(self) -> None:
        pass

    def now(self) -> float:
        return self.at

    @property
    def seen(self) -> float:
        return self.was_seen

    def placement_of(self, key: str) -> Decision | None:
        return self.placements.get(key)
