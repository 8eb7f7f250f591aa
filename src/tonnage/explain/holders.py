"""Holders: the pods that hold a card or a node's resources, with their owners and ages."""

from collections.abc import Iterable

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.holding import CardUse
from tonnage.cluster.nodestate import NodeState
from tonnage.explain.record import PodHolding
from tonnage.model.meta import ObjectMeta
from tonnage.model.resources import PODS, show
from tonnage.model.timestamp import past_timestamp

TEMPLATE_HASH = "pod-template-hash"
"""The label that a Deployment gives to the pods of each of its ReplicaSets."""


def owner_of(metadata: ObjectMeta) -> tuple[str, str] | None:
    """Kind and name of the object that makes a pod: of a Deployment's pod the Deployment, not its ReplicaSet."""
    maker = metadata.controller
    if maker is None:
        return None
    hashed = "-" + (metadata.labels or {}).get(TEMPLATE_HASH, "")
    if maker.kind == "ReplicaSet" and len(hashed) > 1 and maker.name.endswith(hashed):
        return "Deployment", maker.name.removesuffix(hashed)
    return maker.kind, maker.name


def age_of(cluster: Cluster, created: str | None) -> float | None:
    """Seconds since a creation time."""
    made = None if cluster.now is None else past_timestamp(created, cluster.now)
    return None if made is None or cluster.now is None else cluster.now - made


def holding_of(cluster: Cluster, key: str, holds: str) -> PodHolding:
    """A pod with what it holds."""
    task = cluster.running.get(key) or cluster.reserved.get(key)
    metadata = task.pod.metadata if task is not None else ObjectMeta()
    owner = owner_of(metadata)
    return PodHolding(
        key,
        holds,
        "/".join(owner) if owner is not None else "",
        age_of(cluster, metadata.creationTimestamp),
        key in cluster.leaving,
        key in cluster.reserved,
    )


def uses_of_card(state: NodeState, position: int) -> list[tuple[str, CardUse]]:
    """What pods hold of a card of a node, the largest part first."""
    uuid, vendor = state.devices[position].uuid, state.vendors[position]
    found = [
        (key, card)
        for key in state.holdings
        for use in state.uses(key)
        if use.vendor == vendor
        for card in use.cards
        if card.uuid == uuid
    ]
    return sorted(found, key=lambda one: (-one[1].memory, -one[1].cores, one[0]))


def holders_of_card(cluster: Cluster, state: NodeState, position: int) -> list[PodHolding]:
    """The pods that hold a card of a node."""
    device = state.devices[position]
    return [
        holding_of(cluster, key, share_of_card(device.share(card.memory), card.cores))
        for key, card in uses_of_card(state, position)
    ]


def share_of_card(memory: str, cores: int) -> str:
    """A part of a card, for people."""
    return f"{grouped(memory)}, {cores} %" if cores else grouped(memory)


def holders_of_resource(cluster: Cluster, state: NodeState, resource: str) -> list[PodHolding]:
    """The pods that hold a resource of a node, the largest part first."""
    held = [(dict(holding.requests).get(resource, 0), key) for key, holding in state.holdings.items()]
    return [
        holding_of(cluster, key, "a place" if resource == PODS else f"{show(resource, amount)} {resource}")
        for amount, key in sorted([one for one in held if one[0]], key=lambda one: (-one[0], one[1]))
    ]


def holders_of_node(cluster: Cluster, state: NodeState) -> list[PodHolding]:
    """The pods on a node with what they hold of its cards, the largest part first."""
    sizes: dict[str, int] = {}
    texts: dict[str, str] = {}
    for key in state.holdings:
        cards = [card for use in state.uses(key) for card in use.cards]
        sizes[key] = sum(card.memory for card in cards)
        counted = f"{len(cards)} card{'s' if len(cards) > 1 else ''}, {sizes[key]:,} MiB" if cards else "no card"
        texts[key] = counted
    return [holding_of(cluster, key, texts[key]) for key in sorted(sizes, key=lambda key: (-sizes[key], key))]


def grouped(text: str) -> str:
    """A text whose first word may be a long number, with commas in it."""
    number, blank, unit = text.partition(" ")
    return f"{int(number):,}{blank}{unit}" if number.isdecimal() else text


def names_of(pods: Iterable[PodHolding], most: int = 3) -> str:
    """Pods by name, for a sentence."""
    names = [one.pod for one in pods]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted_pods(count: int) -> str:
    """A number of pods, for a sentence."""
    return "1 pod" if count == 1 else f"{count} pods"
