"""How much of the free cards the typical pods cannot use: the fragmentation measure of FGD.

A kind of pods can use a node's free cards if there are processors enough and as many cards as it wants with its share
free; of these cards it can use all that is free, and what is left on others is a fragment to it. Otherwise everything
that is free on the node is. A node's fragments are the mean over the typical pods, by their popularity.

For kinds that want one card, what they can use is a sum over cards, so that one table, by processors and free share,
stands for all of them. Kinds that want several are grouped by share and models. All sums are exact whole numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, CardModel, Nodes
from tonnage.model.resources import CPU
from tonnage.plugins.fragmentation.typicalpods import PodKind, TypicalPods
from tonnage.plugins.helpers.cardshares import WHOLE, CardShares

ALL_PODS = 10**8
"""What popularities add up to, as whole numbers."""
SCALE = float(WHOLE * ALL_PODS)
"""One card of which no typical pod can use anything."""

WeightedKind = tuple[PodKind, int]
"""A kind and its popularity as a whole number."""


class MultiCardKinds(NamedTuple):
    """Kinds that want the same share of several cards of the same models."""

    share: int
    accepted: Array
    """Which models will do."""
    table: Array
    """Popularity of the kinds that have enough, by rank of processors and number of cards with that share free."""


class Usefulness:
    """What the typical pods can use of nodes, for cards of the models known so far."""

    def __init__(self, workload: TypicalPods, models: Sequence[CardModel], width: int) -> None:
        kinds = [(pod.kind, round(pod.popularity * ALL_PODS)) for pod in workload]
        self.everybody = sum(weight for _, weight in kinds)
        wanting = [(kind, weight) for kind, weight in kinds if kind.gpus > 0]
        # NumPy's `unique` loads a module when it is first called, which would keep a decision waiting.
        self._cpus = np.array(sorted({kind.cpu for kind, _ in wanting}), np.int64)
        self._shares = np.array(sorted({kind.share for kind, _ in wanting}), np.int64)
        types = [model.type for model in models]
        alone = [(one, one[0].accepted(types)) for one in wanting if one[0].gpus == 1]
        tables = [self._table([one for one, accepted in alone if accepted[number]]) for number in range(len(models))]
        self._table_of_model = np.arange(len(models)) * tables[0].size
        self._alone = np.concatenate(tables).ravel()
        groups: dict[tuple[int, tuple[str, ...]], list[WeightedKind]] = {}
        for kind, weight in wanting:
            if kind.gpus > 1:
                groups.setdefault((kind.share, kind.models), []).append((kind, weight))
        self._several = [self._group(group, types, width) for group in groups.values()]

    def _table(self, kinds: Sequence[WeightedKind]) -> Array:
        """Popularity of the kinds for which processors and share of such ranks are enough."""
        table = np.zeros((len(self._cpus) + 1, len(self._shares) + 1), np.int64)
        for kind, weight in kinds:
            table[np.searchsorted(self._cpus, kind.cpu) + 1 :, np.searchsorted(self._shares, kind.share) + 1 :] += (
                weight
            )
        return table

    def _group(self, group: Sequence[WeightedKind], types: Sequence[str], width: int) -> MultiCardKinds:
        table = np.zeros((len(self._cpus) + 1, width + 1), np.int64)
        for kind, weight in group:
            table[np.searchsorted(self._cpus, kind.cpu) + 1 :, kind.gpus :] += weight
        kind = group[0][0]
        return MultiCardKinds(kind.share, np.array(kind.accepted(types)), table)

    def of(self, shares: Array, model: Array, cpu: Array) -> Array:
        """What typical pods can use of each node's cards, which have those shares free."""
        rank = self._cpus.searchsorted(cpu, side="right")
        result: Array = np.add.reduce(self._worth(shares, model, rank), axis=0)
        for group in self._several:
            has = (shares >= group.share) & group.accepted.take(model)
            result += np.add.reduce(shares * has, axis=0) * group.table[rank, np.add.reduce(has, axis=0)]
        return result

    def of_each(self, shares: Array, after: Array, model: Array, cpu: Array) -> Array:
        """The same if one card were left with another share, for each card of each node."""
        rank = self._cpus.searchsorted(cpu, side="right")
        worth = self._worth(shares, model, rank)
        result: Array = np.add.reduce(worth, axis=0) - worth + self._worth(after, model, rank)
        for group in self._several:
            accepted = group.accepted.take(model)
            has, keeps = (shares >= group.share) & accepted, (after >= group.share) & accepted
            count = np.add.reduce(has, axis=0) - has + keeps
            result += (np.add.reduce(shares * has, axis=0) - shares * has + after * keeps) * group.table[rank, count]
        return result

    def _worth(self, shares: Array, model: Array, rank: Array) -> Array:
        """What pods that want one card can use of each card."""
        place = self._table_of_model.take(model) + rank * (len(self._shares) + 1)
        result: Array = shares * self._alone.take(place + self._shares.searchsorted(shares, side="right"))
        return result


class Fragments:
    """Free shares and fragments of all nodes as columns; only rows that changed are looked at again."""

    def __init__(self, cluster: Cluster, workload: TypicalPods) -> None:
        self.workload = workload
        self.card_shares = CardShares(cluster.columns)
        self.usefulness: Usefulness
        self.shares = np.zeros((0, 0), np.int64)
        """The free share of each card, as (cards, nodes)."""
        self.free = np.zeros(0, np.int64)
        """Their sum on each node."""
        self.fragments = np.zeros(0, np.int64)
        """How much of it typical pods cannot use, in millionths of a card times `ALL_PODS`."""
        self._cluster = cluster
        self._known: tuple[int, int] = (-1, -1)
        self._version = -1

    def update(self) -> None:
        """Bring the columns up to date."""
        self._cluster.settle()
        columns = self._cluster.columns
        known = (columns.layout, len(columns.models))
        if known != self._known:
            self._known = known
            self.usefulness = Usefulness(self.workload, columns.models, columns.width)
            nodes = Nodes(columns)
            self.shares = self.card_shares.of(nodes.cards)
            self.free, self.fragments = self._measure(self.shares, nodes)
        elif self._version < columns.clock:
            rows = columns.changed_since(self._version)
            nodes = Nodes(columns, rows)
            shares = self.card_shares.of(nodes.cards)
            self.shares[:, rows] = shares
            self.free[rows], self.fragments[rows] = self._measure(shares, nodes)
        self._version = columns.clock

    def _measure(self, shares: Array, nodes: Nodes) -> tuple[Array, Array]:
        free = np.add.reduce(shares, axis=0)
        useful = self.usefulness.of(shares, nodes.cards.model, free_cpu(nodes))
        return free, free * self.usefulness.everybody - useful


class Fragmentation(NamedTuple):
    """How much is free, in cards, and how much of that the typical pods cannot use."""

    fragments: float
    free: float


def fragmentation(cluster: Cluster, workload: TypicalPods) -> Fragmentation:
    """The measure of the whole cluster, counted from nothing."""
    counted = Fragments(cluster, workload)
    counted.update()
    return Fragmentation(float(counted.fragments.sum() / SCALE), float(counted.free.sum() / WHOLE))


def free_cpu(nodes: Nodes) -> Array:
    """Processors that are left on each node, in thousandths."""
    result: Array = nodes.free[nodes.columns.resources[CPU]]
    return result
