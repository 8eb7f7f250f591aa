"""Fragmentation metrics: how much of the free cards typical pods can still use, whichever policy decides."""

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.observability.instruments import read
from tonnage.plugins.fragmentation.usablecards import UsableCards


class FragmentMetrics:
    """Free cards, and how much of them is usable."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        self._cards = UsableCards(cluster, plugins)

    def prepare(self) -> Iterator[None]:
        """Do the slow part of `collect` in slices."""
        if self._cards.learned is not None:
            yield from self._cards.learned.catch_up()

    def collect(self) -> Iterator[Metric]:
        found = self._cards.measure()
        yield read("tonnage_gpus_free", found.free)
        yield read("tonnage_gpus_free_usable", found.usable)
