"""Additions of nodes: copies of the cluster's own kinds of nodes, empty and with cards of their own."""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.nodestate import NodeState
from tonnage.devices.base import Device
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node

HOSTNAME = "kubernetes.io/hostname"
_MOST_KINDS = 8


def kinds_of_nodes(cluster: Cluster) -> list[NodeState]:
    """One node of each kind, those with the fewest cards first: same cards, resources, taints and labels of values."""
    cluster.settle()
    kinds: dict[object, NodeState] = {}
    for state in cluster.states:
        if state.node.spec.unschedulable:
            continue
        taints = tuple([(one.key, one.value, one.effect) for one in state.node.spec.taints or ()])
        kind = (int(cluster.columns.outfit[state.row]), tuple(sorted(state.offers.items())), taints)
        kinds.setdefault(kind, state)
    return sorted(kinds.values(), key=_size)[:_MOST_KINDS]


def _size(state: NodeState) -> tuple[int, int, int, str]:
    return len(state.devices), sum(one.memory for one in state.devices), state.offers.get("cpu", 0), state.name


def copies_of(state: NodeState, count: int, word: str = "copy") -> Iterator[Node]:
    """New nodes like one of the cluster; what names the node or its cards is new, with a word and a number added."""
    node = state.node
    for number in range(1, count + 1):
        name = f"{node.name}-{word}-{number}"
        labels = dict(node.labels)
        if HOSTNAME in labels:
            labels[HOSTNAME] = name
        uuids = {one.uuid: f"{one.uuid}-{word}-{number}" for one in state.devices}
        annotations = {key: _renamed(text, uuids) for key, text in node.annotations.items()}
        metadata = ObjectMeta(name=name, labels=labels, annotations=annotations)
        yield replace(node, metadata=metadata)


def _renamed(text: str, uuids: dict[str, str]) -> str:
    """A text with other UUIDs in it; of two of which one begins like the other, the longer is replaced first."""
    marks = {uuid: f"\0{number}\0" for number, uuid in enumerate(sorted(uuids, key=len, reverse=True))}
    for uuid, mark in marks.items():
        if uuid:
            text = text.replace(uuid, mark)
    for uuid, mark in marks.items():
        text = text.replace(mark, uuids[uuid])
    return text


def described(states: Sequence[NodeState], vendors: Collection[int]) -> str:
    """The most that any of these nodes has of the cards of some vendors, for a sentence."""
    own = [
        (state, [card for card, vendor in zip(state.devices, state.vendors, strict=True) if vendor in vendors])
        for state in states
    ]
    with_cards = [(state, cards) for state, cards in own if cards]
    if not with_cards:
        return "no node has such cards" if vendors else ""
    most, cards = max(with_cards, key=lambda one: len(one[1]))
    largest, where = max([(card, state) for state, cards in with_cards for card in cards], key=_memory)
    size = f"{largest.memory:,} MiB" if largest.memory_known else "a size that is not known"
    return f"the most cards on a node are {len(cards)} ({most.name}); the largest card has {size} ({where.name})"


def _memory(card: tuple[Device, NodeState]) -> int:
    return card[0].memory
