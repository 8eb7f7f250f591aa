"""The preflight check before a Binding: whether the node and the cards are still as they were decided."""

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array
from tonnage.cluster.nodestate import NodeState
from tonnage.devices.base import MIG_MODE
from tonnage.framework.decision import Decision


def preflight(cluster: Cluster, decision: Decision) -> str:
    """Why the pod can no longer have its place; empty if it can."""
    assert decision.node is not None
    state = cluster.nodes.get(decision.node)
    if state is None:
        return f"node {decision.node} is gone"
    for vendor, uses in decision.grant:
        for use in (use for container in uses for use in container):
            name = f"{cluster.vendors[vendor].name} card {use.uuid} of {decision.node}"
            position = state.positions.get(use.uuid)
            if position is None or state.vendors[position] != vendor:
                return f"{name} is gone"
            if not state.devices[position].healthy:
                return f"{name} is unhealthy"
            if use.uuid in state.cordoned:
                return f"{name} is cordoned"
            free = cluster.columns.card_free[:, position, state.row]
            # The compute of MIG instances adds up to more than the card's.
            is_short = state.devices[position].mode != MIG_MODE and (free < 0).any()
            # A pod that is nominated here counts beside those that leave for it, and is bound only after them.
            if is_short and (free + _promised(cluster, state, use.uuid) < 0).any():
                return f"{name} has less room than when the place was decided"
    return ""


def _promised(cluster: Cluster, state: NodeState, uuid: str) -> Array:
    """What nominated pods are to hold of a card."""
    promised = np.zeros(3, np.int64)
    for key in state.holdings.keys() & cluster.pipelined:
        for card in (card for use in state.uses(key) for card in use.cards if card.uuid == uuid):
            promised[SLOTS] += card.slots
            promised[MEMORY] += card.memory
            promised[CORES] += card.cores
    return promised
