"""Usage: how much of a cluster's cards is allocated, from the columns."""

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY


class Usage(msgspec.Struct, frozen=True):
    """The card usage of a cluster at one moment.

    A card is idle if nothing runs on it, full if its memory, compute or slots are exhausted, and partly used otherwise.
    """

    memory: float
    """Percent of all GPU memory that is allocated."""
    cores: float
    """Percent of all compute that is allocated."""
    idle: int
    partial: int
    full: int
    free_nodes: int
    """Nodes with cards, all of them idle."""

    @property
    def cards(self) -> int:
        return self.idle + self.partial + self.full


def measure(cluster: Cluster) -> Usage:
    """The current usage of all cards."""
    cards = cluster.all_nodes().cards
    total, free = cards.total, cards.free
    exists = cards.model > 0
    used = exists & (free < total).any(axis=0)
    full = used & ((free <= 0) & (total > 0)).any(axis=0)
    whole = total.sum(axis=(1, 2)).tolist()
    left = free.sum(axis=(1, 2)).tolist()
    count, used_count, full_count = int(exists.sum()), int(used.sum()), int(full.sum())
    return Usage(
        memory=percent(whole[MEMORY] - left[MEMORY], whole[MEMORY]),
        cores=percent(whole[CORES] - left[CORES], whole[CORES]),
        idle=count - used_count,
        partial=used_count - full_count,
        full=full_count,
        free_nodes=int((exists.any(axis=0) & ~used.any(axis=0)).sum()),
    )


def percent(part: float, whole: float) -> float:
    """A share in percent; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0
