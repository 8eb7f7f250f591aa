"""Rows of a cluster for the view, made again only as often as they may be looked at."""

from collections.abc import Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.overview.overview import ClusterOverview, Overview
from tonnage.overview.podrows import PodRow, PodRows
from tonnage.overview.queuerows import QueueNumbers
from tonnage.overview.waitingpods import DecisionOf


class ViewRows:
    """The rows of one cluster, as of the last update; there are none before the first."""

    overview: ClusterOverview
    pods: Sequence[PodRow]

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        self._overview = Overview(cluster, plugins)
        self._pods = PodRows(cluster)

    def update(self, decision_of: DecisionOf, figures: QueueNumbers) -> None:
        """Bring the rows up to date."""
        self.overview = self._overview.update(decision_of, figures)
        self.pods = self._pods.rows([row for group in self.overview.waiting for row in group.pods])
