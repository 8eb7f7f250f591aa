"""Stranded cards: free parts of cards that no typical pod can use, each with the reason that keeps them from it.

A card only looks free if memory is left on it and nothing that typically arrives could have any of it: its node takes
no pods, the card itself takes none, its slots or compute are used up, what is left is too small, its node has too
little CPU left, or fewer such cards than pods want together.
"""

from typing import Any, NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Nodes
from tonnage.cluster.nodestate import NodeState
from tonnage.plugins.fragmentation.fragments import SCALE, free_cpu
from tonnage.plugins.fragmentation.usablecards import UsableCards
from tonnage.plugins.helpers.cardshares import WHOLE

REASONS = (
    "",
    "NodeUnschedulable",
    "UntoleratedTaint",
    "DevicePluginSilent",
    "DevicePluginBusy",
    "CardNotHealth",
    "CardCordoned",
    "CardTimeSlicingExhausted",
    "CardInsufficientMemory",
    "CardInsufficientCore",
    "CardTypeMismatch",
    "InsufficientCpu",
    "AllocatedCardsInsufficientRequest",
)
"""Why a card is stranded, in words of the registry of reasons; the first means that it is not."""
_CODES = {reason: code for code, reason in enumerate(REASONS)}
_STATES = {"": 0, "unhealthy": _CODES["CardNotHealth"], "cordoned": _CODES["CardCordoned"]}
_NOT_READY = frozenset(("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"))


class CardRoom(NamedTuple):
    """What is free of cards, as arrays of (cards, nodes)."""

    free: Array
    """In cards."""
    usable: Array
    """The part of it that a typical pod can use, on average."""
    stranded: Array
    """The number of the reason, 0 if the card is not stranded."""


def node_trouble(cluster: Cluster, state: NodeState) -> str:
    """The reason for which a node takes no new pods with cards; empty if it takes them."""
    if state.node.spec.unschedulable:
        return "NodeUnschedulable"
    if any(taint.key in _NOT_READY for taint in state.node.spec.taints or ()):
        return "UntoleratedTaint"
    if state.name in cluster.device_plugins.silent:
        return "DevicePluginSilent"
    return "DevicePluginBusy" if state.name in cluster.device_plugins.busy else ""


class StrandedCards:
    """Finds the stranded cards of a cluster, by the typical pods of a measurement of its free cards."""

    def __init__(self, cluster: Cluster, usable: UsableCards) -> None:
        self._cluster = cluster
        self._usable = usable

    def of(self, rows: Array) -> CardRoom:
        """The room on the cards of some nodes, by row."""
        known = self._usable.fragments
        known.update()
        nodes = Nodes(self._cluster.columns, rows)
        shares, model = nodes.pick(known.shares), nodes.cards.model
        useful = known.usefulness.by_card(shares, model, free_cpu(nodes))
        codes = np.where(useful == 0, self._reasons(nodes, shares), 0)
        closed = np.array(
            [_CODES[node_trouble(self._cluster, self._cluster.states[row])] for row in rows.tolist()], int
        )
        codes = np.where(closed > 0, closed, codes)
        return CardRoom(shares / WHOLE, useful / SCALE, np.where(_looks_free(nodes), codes, 0))

    def _reasons(self, nodes: Nodes, shares: Array) -> Array:
        """The reason of each card, as if nobody could use it."""
        cards, models = nodes.cards, self._cluster.columns.models
        model, cpu = cards.model, free_cpu(nodes)
        types = [one.type for one in models]
        accepted, room, fits = (np.zeros(shares.shape, np.bool_) for _ in range(3))
        kinds = [pod.kind for pod in self._usable.fragments.workload if pod.kind.gpus > 0]
        for kind in kinds:
            may = np.array(kind.accepted(types)).take(model)
            has = may & (shares >= max(kind.share, 1))
            accepted |= may
            room |= has
            fits |= has & (cpu >= kind.cpu)
        memory, cores = (cards.free[part] / np.maximum(cards.total[part], 1) for part in (MEMORY, CORES))
        states = np.array([_STATES.get(one.state, 0) for one in models])
        scarce = np.where(
            (cores < memory) & (cards.total[CORES] > 0),
            _CODES["CardInsufficientCore"],
            _CODES["CardInsufficientMemory"],
        )
        if not kinds:
            # Nobody knows what pods would want; what is not free for anybody is stranded all the same.
            accepted = room = fits = shares > 0
        conditions = [states.take(model) > 0, cards.free[SLOTS] <= 0, shares <= 0, ~accepted, ~room, ~fits]
        names = ("CardTypeMismatch", "InsufficientCpu", "AllocatedCardsInsufficientRequest")
        mismatch, cpu_short, several = (_CODES[name] for name in names)
        exhausted = _CODES["CardTimeSlicingExhausted"]
        choices: list[Any] = [states.take(model), exhausted, scarce, mismatch, scarce, cpu_short]
        return np.select(conditions, choices, several if kinds else 0)


def _looks_free(nodes: Nodes) -> Array:
    """Cards with memory left, or with slots left where their memory is not stated."""
    free, total = nodes.cards.free, nodes.cards.total
    left: Array = np.where(total[MEMORY] > 0, free[MEMORY] > 0, free[SLOTS] > 0)
    return left & (nodes.cards.model > 0)
