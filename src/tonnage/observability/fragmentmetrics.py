"""Metrics about fragments: how much of the free cards the usual pods can still use, whichever policy decides."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.plugins.fragmentation.usablecards import UsableCards


class FragmentMetrics:
    """Free cards and their use."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        self._cards = UsableCards(cluster, plugins)

    def prepare(self) -> Iterator[None]:
        """Do in slices what takes long before `collect`."""
        if self._cards.learned is not None:
            yield from self._cards.learned.catch_up()

    def collect(self) -> Iterator[Metric]:
        free, usable = self._cards.measure()
        yield GaugeMetricFamily("tonnage_gpus_free", "Free parts of cards, added up, in cards.", free)
        words = "What of them a usual pod can use, on average over the usual pods, in cards."
        yield GaugeMetricFamily("tonnage_gpus_free_usable", words, usable)
