"""KAI's node placement: binpack onto the nodes with the least free, or spread over those with the most.

Pods that ask for cards are placed by cards, all others by CPU. `binpack` scores 9 × (1 − (free − least) / (most −
least)), where least and most range over all nodes that have any, whether the pod fits there or not; `spread` scores the
free part, 0 to 1. A card is free if it is idle; under `spread` the free parts of shared cards count too. What
terminating pods hold counts as free.
"""

from collections.abc import Hashable
from typing import Literal

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.points import Reads
from tonnage.framework.session import Session
from tonnage.model.resources import CPU
from tonnage.plugins.helpers.cardcounts import CardCounts, wants_cards

BINPACK, SPREAD = "binpack", "spread"
_NOTHING, _ONE, _HIGHEST = np.float64(0), np.float64(1), np.float64(9)
"""NumPy scalars, because converting Python numbers takes longer than the arithmetic."""


class NodePlacement(Plugin, trusted=True):
    """Packs or spreads over nodes, by cards or by CPU."""

    name = "nodeplacement"

    class Arguments(PluginArguments):
        """The strategy of pods without cards, and of pods with cards."""

        cpu: Literal["binpack", "spread"] = "binpack"
        gpu: Literal["binpack", "spread"] = "binpack"

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._cards = CardCounts(session.cluster)
        self._packs_cards: bool = self.args.gpu == BINPACK
        self._packs_cpu: bool = self.args.cpu == BINPACK
        packs = self._packs_cards or self._packs_cpu
        session.add_batch_node_order(
            self._score, key=self._key, reduce=self._fit_to_range if packs else None, reads=Reads.LOOK
        )

    def _key(self, task: Task) -> Hashable:
        return self._cards.vendors(task) if wants_cards(task) else None

    def _packs(self, task: Task) -> bool:
        return self._packs_cards if wants_cards(task) else self._packs_cpu

    def _score(self, task: Task, nodes: Nodes) -> Array:
        """The score of each node, or its free amount if the score depends on the other nodes."""
        if wants_cards(task):
            count = self._cards.idle if self._packs_cards else self._cards.free_share
            return count(nodes, self._cards.vendors(task))
        offered = nodes.allocatable[nodes.columns.resources[CPU]]
        owned = (offered > 0) & (offered < UNLIMITED)
        free = nodes.free[nodes.columns.resources[CPU]] + self._leaving_cpu(nodes)
        if self._packs_cpu:
            return np.where(owned, free, np.nan)
        return np.where(owned, free / np.maximum(offered, 1), 0.0)

    def _fit_to_range(self, task: Task, free: Array, fits: Array) -> Array:
        """Free amounts as scores among all nodes."""
        if not self._packs(task) or not len(free):
            return free
        most, least = free[free.argmax()], free[free.argmin()]
        some_without = bool(most != most)
        if some_without:
            # fmin and fmax skip NaN unless there is nothing else, but take longer.
            most, least = np.fmax.reduce(free), np.fmin.reduce(free)
        if not most > 0:
            return np.zeros(len(free))
        if least == most:
            return np.where(np.isnan(free), 0.0, _HIGHEST)
        scores: Array = free - least
        scores /= most - least
        np.subtract(_ONE, scores, out=scores)
        scores *= _HIGHEST
        return np.fmax(scores, _NOTHING, out=scores) if some_without else scores

    def _leaving_cpu(self, nodes: Nodes) -> Array | int:
        """The CPU that terminating pods hold on each node."""
        cluster = self._cluster
        if not cluster.leaving or cluster.is_ahead:
            return 0
        held = np.zeros(len(nodes.columns.version), np.int64)
        for key in cluster.leaving:
            state = cluster.nodes.get(cluster.holders[key])
            if state is not None:
                held[state.row] += dict(state.holdings[key].requests).get(CPU, 0)
        return nodes.pick(held)
