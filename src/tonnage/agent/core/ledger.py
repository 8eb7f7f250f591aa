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
    asked = pod.cards()
    unknown = [use.uuid for use in asked if use.uuid not in cards]
    if unknown:
        return f"names {', '.join(unknown)}, which this node does not have"
    cut = [use.uuid for use in asked if cards[use.uuid].device.mode == MIG_MODE]
    if cut:
        return f"names {', '.join(cut)}, which is cut into MIG instances that this agent does not make"
    held = [(other, use) for other in holders if other.uid != pod.uid for use in other.cards()]
    for use in asked:
        fault = _over(use, cards[use.uuid], [(other, theirs) for other, theirs in held if theirs.uuid == use.uuid])
        if fault:
            return fault
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
