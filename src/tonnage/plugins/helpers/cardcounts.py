"""Counts of idle cards and of the free part of cards per node, as KAI computes them.

A card is idle if no pod uses any part of it, and as good as idle if every pod that uses it is terminating. The free
part of a shared card is measured by memory; the used part is rounded up to hundredths.
"""

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import MEMORY, SLOTS, Array, Cards, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Demand, Task

MIG_RESOURCES = "nvidia.com/mig-"
"""The prefix of the resources that stand for MIG instances on plain nodes."""
_HUNDREDTHS = np.float64(100)


def wants_cards(task: Task) -> bool:
    """Whether a pod asks for cards, parts of cards or MIG instances, and not only for CPU and memory."""
    return bool(task.demands) or any(name.startswith(MIG_RESOURCES) for name, _ in task.requests)


class CardCounts:
    """The cards of some vendors, counted per node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._owned: dict[tuple[int, ...], Array] = {}
        """By vendors, which card models are theirs."""
        self._sized: Array = np.zeros(0, np.bool_)
        """Which card models have a memory that is known."""
        self._vendors: Memo[tuple[Demand, ...], tuple[int, ...]] = Memo()

    def vendors(self, task: Task) -> tuple[int, ...]:
        """The vendors whose cards count for a pod; a pod with only MIG resources counts as NVIDIA's."""
        known = self._vendors.get(task.demands)
        if known is None:
            numbers = self._cluster.vendor_numbers
            asked = {numbers[request.vendor] for demand in task.demands for request in demand.requests}
            known = self._vendors.keep(task.demands, tuple(sorted(asked or {numbers.get("NVIDIA", 0)})))
        return known

    def owned(self, cards: Cards, vendors: tuple[int, ...]) -> Array:
        """Which cards belong to those vendors."""
        models, known = self._cluster.columns.models, self._owned.get(vendors)
        if known is None or len(known) < len(models):
            known = self._owned[vendors] = np.array([model.vendor in vendors for model in models], np.bool_)
        return known.take(cards.model)

    def sized(self, cards: Cards) -> Array:
        """Which cards have a memory that is known."""
        models = self._cluster.columns.models
        if len(self._sized) < len(models):
            self._sized = np.array([model.memory_known for model in models], np.bool_)
        return self._sized.take(cards.model)

    def idle(self, nodes: Nodes, vendors: tuple[int, ...]) -> Array:
        """Cards of each node that are idle or as good as idle; NaN where a node has none of the vendors' cards."""
        cards = nodes.cards
        owned, unused, leaving = self.owned(cards, vendors), cards.free[SLOTS], self.leaving(nodes)
        if leaving is not None:
            unused = unused + leaving[SLOTS]
        count: Array = np.add.reduce(owned & (unused >= cards.total[SLOTS]), axis=0, dtype=np.float64)
        if self._cluster.columns.foreign_total:
            count = np.maximum(count - self._unknown(nodes, vendors), 0)
        count[~np.logical_or.reduce(owned, axis=0)] = np.nan
        return count

    def free_share(self, nodes: Nodes, vendors: tuple[int, ...]) -> Array:
        """The free part of each node's cards, from 0 to 1; 0 where a node has none."""
        cards = nodes.cards
        owned = self.owned(cards, vendors)
        total = np.maximum(cards.total[MEMORY], 1)
        in_use = cards.total[SLOTS] - cards.free[SLOTS] > 0
        held = cards.total[MEMORY] - cards.free[MEMORY]
        free = np.where(in_use, 1 - _rounded_up(held, total), 1.0)
        leaving = self.leaving(nodes)
        if leaving is not None:
            free = free + _rounded_up(leaving[MEMORY], total)
            free = np.where(in_use & (leaving[SLOTS] == cards.total[SLOTS] - cards.free[SLOTS]), 1.0, free)
        sums = np.where(owned, np.clip(free, 0, 1), 0).sum(axis=0) - self._unknown(nodes, vendors)
        share: Array = np.maximum(sums, 0) / np.maximum(owned.sum(axis=0), 1)
        return share

    def leaving(self, nodes: Nodes) -> Array | None:
        """What terminating pods hold of each card, as (kinds, cards, nodes); nothing if no pod terminates."""
        cluster, columns = self._cluster, self._cluster.columns
        if not cluster.leaving or cluster.is_ahead:
            return None
        held = np.zeros_like(columns.card_free)
        for key in cluster.leaving:
            state = cluster.nodes.get(cluster.holders[key])
            if state is None:
                continue
            for vendor, card in [(use.vendor, card) for use in state.uses(key) for card in use.cards]:
                position = state.position(card.uuid, vendor)
                if position is not None:
                    held[SLOTS, position, state.row] += card.slots
                    held[MEMORY, position, state.row] += card.memory
        return nodes.pick(held)

    def _unknown(self, nodes: Nodes, vendors: tuple[int, ...]) -> Array | int:
        """Cards per node that pods hold without naming them."""
        columns = self._cluster.columns
        return nodes.pick(columns.foreign[list(vendors)]).sum(axis=0) if columns.foreign_total else 0


def _rounded_up(memory: Array, total: Array) -> Array:
    """Memory as a share of the card, rounded up to hundredths."""
    share: Array = np.ceil(memory / total * _HUNDREDTHS) / _HUNDREDTHS
    return share
