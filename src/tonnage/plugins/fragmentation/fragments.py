"""Fragments: the part of the free cards that typical pods cannot use, FGD's fragmentation measure.

A pod kind can use a node's free cards if the node has enough CPU and as many cards as it wants with its share free; of
these cards it can use everything that is free, and the rest is a fragment to it. Otherwise everything that is free on
the node is. A node's fragments are the mean over the typical pods, weighted by popularity.

What kinds of one card can use is a sum over cards, so one table by CPU and free share represents all of them. Kinds of
several cards are grouped by share and models. All sums are exact integers.
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
"""The sum of all popularities, as integers."""
SCALE = float(WHOLE * ALL_PODS)
"""One card that no typical pod can use."""

WeightedKind = tuple[PodKind, int]
"""A kind and its integer popularity."""


class MultiCardKinds(NamedTuple):
    """Pod kinds that want the same share of several cards of the same models."""

    share: int
    accepted: Array
    """The accepted models."""
    table: Array
    """The popularity of the kinds that fit, by CPU rank and number of cards with that share free."""


class Usefulness:
    """What typical pods can use of nodes, for the card models known so far."""

    def __init__(self, workload: TypicalPods, models: Sequence[CardModel], width: int) -> None:
        kinds = [(pod.kind, round(pod.popularity * ALL_PODS)) for pod in workload]
        self.everybody = sum(weight for _, weight in kinds)
        wanting = [(kind, weight) for kind, weight in kinds if kind.gpus > 0]
        # NumPy's `unique` imports a module on its first call, which would delay a decision.
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
        """The popularity of the kinds that fit at each rank of CPU and share."""
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
        """What typical pods can use of each node's cards with these free shares."""
        rank = self._cpus.searchsorted(cpu, side="right")
        result: Array = np.add.reduce(self._worth(shares, model, rank), axis=0)
        for group in self._several:
            has = (shares >= group.share) & group.accepted.take(model)
            result += np.add.reduce(shares * has, axis=0) * group.table[rank, np.add.reduce(has, axis=0)]
        return result

    def by_card(self, shares: Array, model: Array, cpu: Array) -> Array:
        """The same for each card: what typical pods can use of it, as things are on its node."""
        rank = self._cpus.searchsorted(cpu, side="right")
        result = self._worth(shares, model, rank)
        for group in self._several:
            has = (shares >= group.share) & group.accepted.take(model)
            result += shares * has * group.table[rank, np.add.reduce(has, axis=0)]
        return result

    def of_each(self, shares: Array, after: Array, model: Array, cpu: Array) -> Array:
        """The same if one card had another free share, for each card of each node."""
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
        """What kinds of one card can use of each card."""
        place = self._table_of_model.take(model) + rank * (len(self._shares) + 1)
        result: Array = shares * self._alone.take(place + self._shares.searchsorted(shares, side="right"))
        return result


class Fragments:
    """Free shares and fragments of all nodes as columns; only changed rows are recomputed."""

    def __init__(self, cluster: Cluster, workload: TypicalPods) -> None:
        self.workload = workload
        self.card_shares = CardShares(cluster.columns)
        self.usefulness: Usefulness
        self.shares = np.zeros((0, 0), np.int64)
        """The free share of each card, as (cards, nodes)."""
        self.free = np.zeros(0, np.int64)
        """Their sum on each node."""
        self.fragments = np.zeros(0, np.int64)
        """The part of it that typical pods cannot use, in millionths of a card × `ALL_PODS`."""
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
    """The free cards, and the part of them that typical pods cannot use."""

    fragments: float
    free: float


def fragmentation(cluster: Cluster, workload: TypicalPods) -> Fragmentation:
    """The fragmentation of the whole cluster, computed from scratch."""
    counted = Fragments(cluster, workload)
    counted.update()
    return Fragmentation(float(counted.fragments.sum() / SCALE), float(counted.free.sum() / WHOLE))


def free_cpu(nodes: Nodes) -> Array:
    """The free CPU of each node, in millicores."""
    result: Array = nodes.free[nodes.columns.resources[CPU]]
    return result
