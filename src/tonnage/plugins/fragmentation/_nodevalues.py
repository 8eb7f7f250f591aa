"""Node values: what the free cards of nodes are worth to typical pods, as columns; only changed rows are recomputed.

A value has two parts, both in cards: the expected fill, and the places for scarce kinds with a slight preference for
nodes in use. The worth of places depends on the whole cluster; it is refreshed once an eighth of the cards' number of
changes has happened, and the values' `number` says how often.
"""

from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.plugins.fragmentation._cardfill import CardFill, within
from tonnage.plugins.fragmentation._places import Places
from tonnage.plugins.fragmentation.fragments import free_cpu
from tonnage.plugins.fragmentation.typicalpods import TypicalPods
from tonnage.plugins.helpers.cardshares import WHOLE, CardShares

EMPTY = 0.1
"""The preference for nodes in use: what eight free cards of one node are worth more than of eight nodes, per card."""
_LARGE = 8
_FEW_CHANGES = 32


class Worth(NamedTuple):
    """The two parts of a value, in cards."""

    fill: Array
    places: Array


class NodeValues:
    """The values of all nodes for a workload."""

    def __init__(self, cluster: Cluster, workload: TypicalPods) -> None:
        self.cluster = cluster
        self.workload = workload
        self.places: Places
        self.shares = np.zeros((0, 0), np.int64)
        """The free share of each card, as (cards, nodes)."""
        self.now = Worth(np.zeros(0), np.zeros(0))
        self.number = 0
        """Changes whenever all values do."""
        self._card_fill: CardFill
        self._card_shares = CardShares(cluster.columns)
        self._known: tuple[int, int] = (-1, -1)
        self._models = -1
        self._version = -1
        self._until = -1

    def update(self) -> None:
        """Bring the columns up to date."""
        self.cluster.settle()
        columns = self.cluster.columns
        known = (columns.layout, len(columns.models))
        if known != self._known:
            if len(columns.models) != self._models:
                self._models = len(columns.models)
                self._card_fill = CardFill(self.workload, columns.models)
            self.places = Places(self.workload, columns.models, columns.width)
            self._known, self._until = known, -1
            self.shares = self._card_shares.of(Nodes(columns).cards)
        elif self._version < columns.clock:
            rows = columns.changed_since(self._version)
            nodes = Nodes(columns, rows)
            shares = self.shares[:, rows] = self._card_shares.of(nodes.cards)
            if columns.clock <= self._until:
                self.now.fill[rows], self.now.places[rows] = self.of(shares, nodes.cards.model, free_cpu(nodes))
        self._version = columns.clock
        if columns.clock > self._until:
            self._weigh()

    def _weigh(self) -> None:
        """Weigh the places anew, and value all nodes by them."""
        columns = self.cluster.columns
        nodes = Nodes(columns)
        cards = int(np.count_nonzero(columns.model))
        self.places.weigh(self.shares, columns.model, np.maximum(free_cpu(nodes), 0), cards)
        self.now = self.of(self.shares, columns.model, free_cpu(nodes))
        self.number += 1
        self._until = columns.clock + max(_FEW_CHANGES, cards // 8)

    def of(self, shares: Array, model: Array, cpu: Array) -> Worth:
        """The value of nodes with these free shares and that CPU."""
        cpu = np.maximum(cpu, 0)
        filled = within(np.add.reduce(self._card_fill.of(shares, model, cpu), axis=0), cpu)
        return Worth(filled, self.places.of(shares, model, cpu) + _emptiness(np.add.reduce(shares, axis=0)))

    def of_each(self, shares: Array, after: Array, model: Array, cpu: Array) -> Worth:
        """The same if one card had another free share, for each card of each node."""
        cpu = np.maximum(cpu, 0)
        fill = self._card_fill.of(shares, model, cpu)
        filled = within(np.add.reduce(fill, axis=0) - fill + self._card_fill.of(after, model, cpu), cpu)
        left = np.add.reduce(shares, axis=0) - shares + after
        return Worth(filled, self.places.of_each(shares, after, model, cpu) + _emptiness(left))


def _emptiness(free: Array) -> Array:
    result: Array = (free / WHOLE) ** 2 * (EMPTY / _LARGE)
    return result
