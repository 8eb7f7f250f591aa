"""Usable cards: the part of the free cards that typical pods can still use, under any policy."""

from collections.abc import Sequence
from typing import NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.plugins.fragmentation.fragmentation import FragmentationGradient
from tonnage.plugins.fragmentation.fragments import SCALE, Fragments
from tonnage.plugins.helpers.cardshares import WHOLE


class FreeCards(NamedTuple):
    """The summed free parts of cards, in cards."""

    free: float
    usable: float
    """The part of them that a typical pod can use, on average."""


class UsableCards:
    """The measurement of free cards; typical pods are those of the fragmentation plugin, or learned as it does."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        named = [plugin for plugin in plugins if isinstance(plugin, FragmentationGradient)]
        plugin = named[0] if named else FragmentationGradient()
        self._cluster = cluster
        self.learned = plugin.learned_in(cluster)
        """The learner of typical pods; nothing if they are given."""
        self._workload = plugin.workload_in(cluster) if self.learned is None else self.learned.current
        self._fragments = Fragments(cluster, ())

    def measure(self) -> FreeCards:
        """The current free cards."""
        workload = self._workload()
        if workload is not self._fragments.workload:
            self._fragments = Fragments(self._cluster, workload)
        self._fragments.update()
        free, fragments = self._fragments.free.sum() / WHOLE, self._fragments.fragments.sum() / SCALE
        return FreeCards(float(free), float(free - fragments))
