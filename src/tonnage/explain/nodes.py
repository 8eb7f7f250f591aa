"""Explanation of a node and of a card: what is free, who holds the rest, and why it takes nothing new."""

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, UNLIMITED
from tonnage.cluster.nodestate import NodeState
from tonnage.explain.holders import counted_pods, holders_of_card, holders_of_node
from tonnage.explain.record import CardExplanation, ExplainedKind, Explanation
from tonnage.explain.rehearsal import Rehearsal
from tonnage.framework.session import Session
from tonnage.model.resources import show

_MOST_WAITING = 200
"""How many waiting pods are asked why a node does not take them."""


def explain_node(rehearsal: Rehearsal, name: str) -> Explanation:
    """What a node holds, and why it takes none of the waiting pods."""
    cluster = rehearsal.cluster
    with rehearsal.cycle() as session:
        state = cluster.nodes[name]
        reasons = _reasons(session, state)
    cards = [card_of(cluster, state, position) for position in range(len(state.devices))]
    idle = sum(1 for one in cards if not one.holders and not one.state)
    free = _free(cluster, state)
    parts = [f"{counted_pods(len(state.holdings))} on it"]
    if cards:
        parts.append(f"{idle} of {len(cards)} cards are idle")
    if state.node.spec.unschedulable:
        parts.insert(0, "it is cordoned")
    notes = [
        f"taint {one.key}{f'={one.value}' if one.value else ''}: {one.effect}" for one in state.node.spec.taints or ()
    ]
    notes += [f"of the waiting pods, {count} would not fit: {reason}" for reason, count in reasons.items()]
    notes += [str(problem) for problem in state.problems]
    return Explanation(
        ExplainedKind.NODE,
        name,
        "; ".join(parts),
        node=name,
        resources=free,
        cards=cards,
        holders=holders_of_node(cluster, state),
        notes=notes,
    )


def explain_card(rehearsal: Rehearsal, node: str, uuid: str) -> Explanation:
    """What is free on a card and who holds the rest."""
    cluster = rehearsal.cluster
    cluster.settle()
    state = cluster.nodes[node]
    card = card_of(cluster, state, state.positions[uuid])
    held = len(card.holders)
    size = (
        f"{card.free_memory:,} of {card.memory:,} MiB" if card.memory and card.free_memory is not None else "its memory"
    )
    parts = [
        f"{card.type} on {node}",
        f"{counted_pods(held)} on it",
        f"{size} and {card.free_cores} % free",
    ]
    if card.state:
        parts.insert(1, card.state)
    notes = _why_unused(cluster, state, card)
    return Explanation(
        ExplainedKind.GPU, uuid, "; ".join(parts), node=node, cards=[card], holders=card.holders, notes=notes
    )


def card_of(cluster: Cluster, state: NodeState, position: int) -> CardExplanation:
    """A card of a node."""
    device, columns = state.devices[position], cluster.columns
    free = [max(0, one) for one in columns.card_free[:, position, state.row].tolist()]
    return CardExplanation(
        device.uuid,
        state.name,
        device.type,
        device.memory if device.memory_known else None,
        free[MEMORY] if device.memory_known else None,
        device.cores,
        free[CORES],
        device.count,
        free[SLOTS],
        columns.models[int(columns.model[position, state.row])].state,
        holders_of_card(cluster, state, position),
    )


def _why_unused(cluster: Cluster, state: NodeState, card: CardExplanation) -> list[str]:
    """What keeps the free part of a card from being used."""
    notes: list[str] = []
    if state.node.spec.unschedulable:
        notes.append(f"{state.name} is cordoned, so nothing new comes")
    if card.free_memory and not card.free_slots:
        notes.append("all slots are taken, so its free memory is of no use")
    elif card.free_memory and card.cores and not card.free_cores:
        notes.append("its compute is given out, so its free memory is of no use")
    elif card.free_cores and card.memory and not card.free_memory:
        notes.append("its memory is given out, so its free compute is of no use")
    columns = cluster.columns
    for name, position in columns.resources.items():
        offered = int(columns.allocatable[position, state.row])
        if 0 < offered < UNLIMITED and int(columns.free[position, state.row]) <= 0:
            notes.append(f"{state.name} has no {name} left, so nothing new comes")
    return notes


def _free(cluster: Cluster, state: NodeState) -> dict[str, str]:
    columns, free = cluster.columns, {}
    for name, position in sorted(columns.resources.items()):
        offered = int(columns.allocatable[position, state.row])
        if 0 < offered < UNLIMITED:
            left = max(0, int(columns.free[position, state.row]))
            free[name] = f"{show(name, left)} of {show(name, offered)} free"
    return free


def _reasons(session: Session, state: NodeState) -> dict[str, int]:
    """Why a node takes none of the waiting pods, the most frequent reason first."""
    cluster = session.cluster
    among = cluster.mask([state.name])
    counts: dict[str, int] = {}
    for task in list(cluster.waiting.values())[:_MOST_WAITING]:
        for one in session.decide(task, among).rejected:
            counts[one.reason] = counts.get(one.reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
