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
    cards: int
    """All cards, free or not."""

    @property
    def fragmentation(self) -> float:
        """The free cards that typical pods cannot use, in percent of all cards; 0 without cards."""
        return 100.0 * (self.free - self.usable) / self.cards if self.cards else 0.0


class UsableCards:
    """The measurement of free cards; typical pods are those of the fragmentation plugin, or learned as it does."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        named = [plugin for plugin in plugins if isinstance(plugin, FragmentationGradient)]
        plugin = named[0] if named else FragmentationGradient()
        self._cluster = cluster
        self.learned = plugin.learned_in(cluster)
        """The learner of typical pods; nothing if they are given."""
        self._workload = plugin.workload_in(cluster) if self.learned is None else self.learned.current
        self.fragments = Fragments(cluster, ())
        """The free cards as columns, by the typical pods as they were last learned."""

    def measure(self) -> FreeCards:
        """The current free cards, by the current typical pods."""
        self.learn()
        return self.count()

    def learn(self) -> None:
        """Bring the typical pods up to date."""
        workload = self._workload()
        if workload is not self.fragments.workload:
            self.fragments = Fragments(self._cluster, workload)

    def count(self) -> FreeCards:
        """The current free cards, by the typical pods as they were last learned."""
        self.fragments.update()
        free, fragments = self.fragments.free.sum() / WHOLE, self.fragments.fragments.sum() / SCALE
        cards = int((self._cluster.columns.model > 0).sum())
        return FreeCards(float(free), float(free - fragments), cards)
