"""GPU clustering, a baseline of the literature: pods that ask for the same number of cards share nodes.

Pods with cards form kinds: a part of a card, one card, two cards, and so on. A node scores in bands of 25 points;
within a band the score grows with the part of 8 cards that is in use:

| the node's pods with cards | score |
|---|---|
| all are of the pod's kind | 75 to 100 |
| some are | 50 to 75 |
| there are none | 25 to 50 |
| none is | 0 to 25 |

Pods without cards are not scored.
"""

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.holding import CardUse
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.baselines._freeamounts import LARGE_GPUS, MILLI, FreeAmounts
from tonnage.plugins.helpers.cardorder import every_task, fullest_first
from tonnage.plugins.helpers.podneeds import lasting_requests

_BAND = 25
_PART = 1
"""The bit of pods that take a part of one card; pods with whole cards have the bit of their number."""
_MOST_CARDS = 62
"""Pods with more cards than this count as one kind."""


class GpuClustering(Plugin, trusted=True):
    """Prefers nodes that hold only pods of the same kind, then fuller ones."""

    name = "gpu-clustering"

    def on_session_open(self, session: Session) -> None:
        self._free = FreeAmounts(session.cluster.columns)
        self._kinds = PodKindsByNode(session.cluster)
        session.add_batch_node_order(self._score, key=lasting_requests)
        session.add_gpu_order(fullest_first, key=every_task)

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        requests = lasting_requests(task)
        if not requests:
            return None
        whole = 1 << min(sum(request.count for request in requests), _MOST_CARDS)
        shares = self._free.asked_share(requests[0], nodes)
        own = np.where((shares < MILLI) & (whole == 1 << 1), _PART, whole)
        kinds = nodes.pick(self._kinds.current())
        band = np.where(kinds == 0, 1, np.where(kinds == own, 3, np.where(kinds & own, 2, 0)))
        score: Array = np.trunc(_BAND * (LARGE_GPUS - self._free.gpus(nodes)) / LARGE_GPUS) + _BAND * band
        return score


class PodKindsByNode:
    """The kinds of pods with cards on each node, as a bit set; only changed nodes are recomputed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._bits = np.zeros(0, np.int64)
        self._layout = self._version = -1

    def current(self) -> Array:
        """The bits of every node."""
        columns, states = self._cluster.columns, self._cluster.states
        if self._layout != columns.layout:
            self._bits = np.array([_bits_of(state) for state in states], np.int64)
        elif self._version < columns.clock:
            for row in columns.changed_since(self._version).tolist():
                self._bits[row] = _bits_of(states[row])
        self._layout, self._version = columns.layout, columns.clock
        return self._bits


def _bits_of(state: NodeState) -> int:
    bits = 0
    for key in state.holdings:
        uses = state.uses(key)
        held = [card for use in uses for card in use.cards]
        count = len(held) + sum(use.unknown for use in uses)
        if count == 1 and held and _is_part(state, held[0]):
            bits |= _PART
        elif count:
            bits |= 1 << min(count, _MOST_CARDS)
    return bits


def _is_part(state: NodeState, held: CardUse) -> bool:
    """Whether a pod holds only a part of its card."""
    position = state.positions.get(held.uuid)
    if position is None:
        return False
    _, memory, cores = state.capacities[position]
    return held.memory < memory and held.cores < cores
