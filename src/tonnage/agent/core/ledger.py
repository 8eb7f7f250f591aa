"""The ledger: what is on each card of the node, so that nothing is ever handed out twice, whoever wrote the record.

Pods count from the moment that one of their containers is given devices until they are over or gone, at the peak of
their phases. Who would exceed a card is told who holds it.
"""

from collections.abc import Iterable, Mapping

from tonnage.agent.core.cards import Card
from tonnage.agent.core.nodepod import NodePod
from tonnage.cluster.holding import CardUse
from tonnage.devices.base import MIG_MODE

_NAMED = 3
"""Holders that a sentence names."""


def excess(pod: NodePod, cards: Mapping[str, Card], holders: Iterable[NodePod]) -> str:
    """Why a pod cannot have its devices, as a part of a sentence; empty if it can."""
    asked, holders = pod.cards(), list(holders)
    unknown = [use.uuid for use in asked if use.uuid not in cards]
    if unknown:
        return f"names {', '.join(unknown)}, which this node does not have"
    fault = _instance_fault(pod, cards, [other for other in holders if other.uid != pod.uid])
    if fault:
        return fault
    held = [(other, use) for other in holders if other.uid != pod.uid for use in other.cards()]
    for use in asked:
        fault = _over(use, cards[use.uuid], [(other, theirs) for other, theirs in held if theirs.uuid == use.uuid])
        if fault:
            return fault
    return ""


def _instance_fault(pod: NodePod, cards: Mapping[str, Card], others: Iterable[NodePod]) -> str:
    """Why its MIG instances cannot be given: there is none at that place, or somebody has it."""
    taken = [(other, use) for other in others for one in other.containers for use in one.uses if use.placement]
    for container in pod.containers:
        modes = {cards[use.uuid].device.mode == MIG_MODE for use in container.uses}
        if len(modes) > 1:
            return f"names whole cards and MIG instances for container {container.name}, which cannot have both"
        for use in container.uses:
            place = use.placement
            if (cards[use.uuid].device.mode == MIG_MODE) != (place is not None):
                return f"names {use.uuid}, whose mode is another one now"
            if place is None:
                continue
            if cards[use.uuid].instance_at(place) is None:
                return (
                    f"names a MIG instance {use.profile} at {place.start} of {use.uuid}, which the card has not been "
                    "cut into; this agent gives out instances and makes none"
                )
            for other, theirs in taken:
                if theirs.uuid == use.uuid and theirs.placement is not None and theirs.placement.overlaps(place):
                    return f"names a MIG instance of {use.uuid} that {other.key} holds"
    return ""


def _over(use: CardUse, card: Card, others: list[tuple[NodePod, CardUse]]) -> str:
    device = card.device
    amounts = (
        ("containers", use.slots, sum(one.slots for _, one in others), device.count),
        ("MiB", use.memory, sum(one.memory for _, one in others), device.memory),
        ("% of compute", use.cores, sum(one.cores for _, one in others), device.cores),
    )
    for unit, asked, taken, total in amounts:
        if asked + taken > total:
            names = [pod.key for pod, _ in others]
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            by = f", held by {', '.join(names[:_NAMED])}{more}" if names else ""
            return f"would get {asked} {unit} of {use.uuid}, which has {total}, {taken} taken{by}"
    return ""
