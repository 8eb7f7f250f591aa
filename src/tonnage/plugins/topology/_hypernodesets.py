"""The search for HyperNodes that may hold a job, as Volcano does it.

Tiers are tried from the lowest to the highest allowed, in each the best HyperNode first; a job that only prefers a
HyperNode falls back to all nodes. Pods that have a node pin a job to the HyperNodes that contain them all. If a job
must span several HyperNodes of lower tiers, few of them are filled.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.topologyconstraint import HyperNodeConstraint
from tonnage.framework.decision import Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.model.hypernode import HyperNode
from tonnage.plugins.topology._fillorder import filling_order, filling_scores
from tonnage.plugins.topology._jobroom import JobRoom


class HyperNodeTiers(NamedTuple):
    """HyperNodes by name, the root last; their tiers, and which nodes they contain."""

    names: Sequence[str]
    tiers: Sequence[int]
    member: Array
    around: Mapping[int, Array]
    """By tier, the index of the HyperNode that each node is in; one past the last if it is in none."""


def highest_tier(said: HyperNodeConstraint, hypernodes: Mapping[str, HyperNode]) -> int | str | None:
    """The highest allowed tier, nothing if any is allowed; or what is wrong."""
    if not said.tier_name:
        return said.tier
    tiers = [one.spec.tier for one in hypernodes.values() if one.spec.tierName == said.tier_name]
    return max(tiers) if tiers else f"no HyperNode is of a tier called {said.tier_name}"


class HyperNodeSearch:
    """The search for HyperNodes that may hold some pods of one job, or of a subgroup."""

    def __init__(self, tiers: HyperNodeTiers, scores: Mapping[str, float], room: JobRoom) -> None:
        """`scores` rates each HyperNode for the job."""
        self._tiers = tiers
        self._scores = scores
        self._room = room
        self._held = room.held
        self._inside = self._totals(self._held)
        self._fit = self._room.fit(self._totals)
        self._capacity = self._room.capacity(self._totals)

    def _totals(self, column: Array) -> Array:
        return np.asarray(self._tiers.member @ column.astype(np.float64))

    def node_sets(self, highest: int | None) -> NodeSets:
        """The HyperNodes up to a tier, or all of them; and why the job waits if it fits into none."""
        tiers, fit = self._tiers, self._fit
        allowed = [place for place in self._around_all() if highest is None or tiers.tiers[place] <= highest]
        order = sorted(
            allowed,
            key=lambda place: (tiers.tiers[place], not fit.enough[place], -self._scores[tiers.names[place]], place),
        )
        return NodeSets(self._sets(order), self._why_none(allowed, highest))

    def _around_all(self) -> list[int]:
        """The HyperNodes that contain all pods of the job that have a node."""
        has_all = self._inside >= self._held.sum()
        return [int(place) for place in has_all.nonzero()[0]]

    def _sets(self, order: Sequence[int]) -> Iterator[NodeSet]:
        for place in order:
            enough = bool(self._fit.enough[place])
            scores = self._filling(place) if enough else None
            yield NodeSet(self._tiers.names[place], self._tiers.member[place], enough, scores)

    def _filling(self, place: int) -> Array | None:
        """Scores that fill few of the HyperNodes within one."""
        tiers, layers = self._tiers, list[tuple[Array, list[int]]]()
        capacity, inside = self._capacity.tolist(), self._inside.tolist()
        for tier in sorted((tier for tier in tiers.around if tier < tiers.tiers[place]), reverse=True):
            around = tiers.around[tier]
            parts = np.unique(around[tiers.member[place]]).tolist()
            known = [part for part in parts if part < len(tiers.names)]
            layers.append((around, filling_order(known, capacity, inside, self._room.needed)))
        return filling_scores(layers)

    def _why_none(self, allowed: Sequence[int], highest: int | None) -> Reason:
        limit = "" if highest is None else f" of tier {highest} or lower"
        message = f"{self._room.subject} needs {self._room.needed} pods in one HyperNode{limit}"
        if not allowed:
            beside = ", and has pods that are together in none" if self._held.any() else ", and there is none"
            return Reason("TopologyNotMet", message + beside)
        if not self._fit.enough[list(allowed)].any():
            best = self._room.nearest(self._fit, allowed)
            name = self._tiers.names[best]
            message += f"; the best one, {name}, {self._room.shortage(self._totals, self._fit, best)}"
        return Reason("TopologyNotMet", message)
