"""KAI's node placement: pack pods onto the nodes with the least left, or spread them over those with the most.

Pods that ask for cards are placed by cards, all others by processors. `binpack` gives 9 × (1 − (free − least) / (most −
least)), where least and most range over all nodes that have any, whether the pod fits there or not; `spread` gives the
free part, 0 to 1. Cards count as free if they are idle; under `spread` the free parts of shared ones count too. What
leaving pods hold counts as free.
"""

from collections.abc import Hashable
from typing import Literal

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.resources import CPU
from tonnage.plugins.helpers.cardcounts import CardCounts, wants_cards

BINPACK, SPREAD = "binpack", "spread"
_NOTHING, _ONE, _HIGHEST = np.float64(0), np.float64(1), np.float64(9)
"""As numbers of NumPy, because converting others takes longer than to reckon with them."""


class NodePlacement(Plugin, trusted=True):
    """Packs or spreads over nodes, by cards or by processors."""

    name = "nodeplacement"

    class Arguments(PluginArguments):
        """How pods are placed that ask for no cards, and how those that do."""

        cpu: Literal["binpack", "spread"] = "binpack"
        gpu: Literal["binpack", "spread"] = "binpack"

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._cards = CardCounts(session.cluster)
        self._packs_cards: bool = self.args.gpu == BINPACK
        self._packs_processors: bool = self.args.cpu == BINPACK
        packs = self._packs_cards or self._packs_processors
        session.add_batch_node_order(self._score, key=self._key, reduce=self._fit_to_range if packs else None)

    def _key(self, task: Task) -> Hashable:
        return self._cards.vendors(task) if wants_cards(task) else None

    def _packs(self, task: Task) -> bool:
        return self._packs_cards if wants_cards(task) else self._packs_processors

    def _score(self, task: Task, nodes: Nodes) -> Array:
        """The score of each node, or what is free there if the score depends on the other nodes."""
        if wants_cards(task):
            count = self._cards.idle if self._packs_cards else self._cards.free_share
            return count(nodes, self._cards.vendors(task))
        offered = nodes.allocatable[nodes.columns.resources[CPU]]
        owned = (offered > 0) & (offered < UNLIMITED)
        free = nodes.free[nodes.columns.resources[CPU]] + self._leaving_processors(nodes)
        if self._packs_processors:
            return np.where(owned, free, np.nan)
        return np.where(owned, free / np.maximum(offered, 1), 0.0)

    def _fit_to_range(self, task: Task, free: Array, fits: Array) -> Array:
        """From what is free on each node to its score among all."""
        if not self._packs(task) or not len(free):
            return free
        most, least = free[free.argmax()], free[free.argmin()]
        some_without = bool(most != most)
        if some_without:
            # These two pass over what is not a number, unless there is nothing else, but take longer.
            most, least = np.fmax.reduce(free), np.fmin.reduce(free)
        if not most > 0:
            return np.zeros(len(free))
        if least == most:
            return np.where(np.isnan(free), 0.0, _HIGHEST)
        scores: Array = _HIGHEST * (_ONE - (free - least) / (most - least))
        return np.fmax(scores, _NOTHING, out=scores) if some_without else scores

    def _leaving_processors(self, nodes: Nodes) -> Array | int:
        """Processors that pods on their way out hold on each node."""
        cluster = self._cluster
        if not cluster.leaving or cluster.is_ahead:
            return 0
        held = np.zeros(len(nodes.columns.version), np.int64)
        for key in cluster.leaving:
            state = cluster.nodes.get(cluster.holders[key])
            if state is not None:
                held[state.row] += dict(state.holdings[key].requests).get(CPU, 0)
        return nodes.pick(held)
