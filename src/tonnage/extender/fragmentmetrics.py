"""Metrics about fragments: how much of the free cards the usual pods can still use, whichever policy decides."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.plugins.cardshares import WHOLE
from tonnage.plugins.fragmentation import FragmentationGradient
from tonnage.plugins.fragments import SCALE, Fragments


class FragmentMetrics:
    """Free cards and their use; the usual pods are those of the fragmentation plugin, or learned as it would."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        named = [plugin for plugin in plugins if isinstance(plugin, FragmentationGradient)]
        plugin = named[0] if named else FragmentationGradient()
        self._cluster = cluster
        self._learned = plugin.learned_in(cluster)
        self._workload = plugin.workload_in(cluster) if self._learned is None else self._learned.current
        self._fragments = Fragments(cluster, ())

    def prepare(self) -> Iterator[None]:
        """Do in slices what takes long before `collect`."""
        if self._learned is not None:
            yield from self._learned.catch_up()

    def collect(self) -> Iterator[Metric]:
        workload = self._workload()
        if workload is not self._fragments.workload:
            self._fragments = Fragments(self._cluster, workload)
        self._fragments.update()
        free, fragments = self._fragments.free.sum() / WHOLE, self._fragments.fragments.sum() / SCALE
        yield GaugeMetricFamily("tonnage_gpus_free", "Free parts of cards, added up, in cards.", free)
        words = "What of them a usual pod can use, on average over the usual pods, in cards."
        yield GaugeMetricFamily("tonnage_gpus_free_usable", words, free - fragments)
