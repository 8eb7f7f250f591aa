"""How many of a node's cards are idle and how much of them is free, as KAI counts it.

A card counts as idle if nobody uses any part of it, and as good as idle if all who use it are leaving. Of a shared card
the free part is counted by memory, what is used being rounded up to hundredths.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import MEMORY, SLOTS, Array, Cards, Nodes
from tonnage.cluster.task import Task

MIG_RESOURCES = "nvidia.com/mig-"
"""What the names of resources begin with that stand for MIG instances of plain nodes."""
_HUNDREDTHS = np.float64(100)


def wants_cards(task: Task) -> bool:
    """Whether a pod is more than processors and memory: it asks for cards, parts of them, or MIG instances."""
    return bool(task.demands) or any(name.startswith(MIG_RESOURCES) for name, _ in task.requests)


class CardCounts:
    """Counts the cards of some vendors."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._vendor_of_model = np.zeros(0, np.int64)

    def vendors(self, task: Task) -> tuple[int, ...]:
        """The vendors whose cards count for a pod; those of NVIDIA's MIG instances are NVIDIA's."""
        numbers = self._cluster.vendor_numbers
        asked = {numbers[request.vendor] for demand in task.demands for request in demand.requests}
        return tuple(sorted(asked or {numbers.get("NVIDIA", 0)}))

    def owned(self, cards: Cards, vendors: Sequence[int]) -> Array:
        """Which cards are of those vendors."""
        models = self._cluster.columns.models
        if len(self._vendor_of_model) < len(models):
            self._vendor_of_model = np.array([model.vendor for model in models])
        return np.isin(self._vendor_of_model.take(cards.model), vendors)

    def idle(self, nodes: Nodes, vendors: Sequence[int]) -> Array:
        """How many cards of each node are idle or as good as idle; not a number where a node has none at all."""
        cards = nodes.cards
        owned = self.owned(cards, vendors)
        used = cards.total[SLOTS] - cards.free[SLOTS]
        leaving = self.leaving(nodes)
        if leaving is not None:
            used = used - leaving[SLOTS]
        count: Array = (owned & (used <= 0)).sum(axis=0).astype(np.float64)
        count = np.maximum(count - self._unknown(nodes, vendors), 0)
        return np.where(owned.any(axis=0), count, np.nan)

    def free_share(self, nodes: Nodes, vendors: Sequence[int]) -> Array:
        """The part of each node's cards that is free, from 0 to 1; 0 where a node has none."""
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
        """What pods on their way out hold of each card, as (kinds, cards, nodes); nothing if nobody leaves."""
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

    def _unknown(self, nodes: Nodes, vendors: Sequence[int]) -> Array | int:
        """Cards that pods hold without saying which."""
        columns = self._cluster.columns
        return nodes.pick(columns.foreign[list(vendors)]).sum(axis=0) if columns.foreign_total else 0


def _rounded_up(memory: Array, total: Array) -> Array:
    """Memory as a share of cards, in hundredths."""
    share: Array = np.ceil(memory / total * _HUNDREDTHS) / _HUNDREDTHS
    return share
