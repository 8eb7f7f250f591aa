"""Queue rows: what each queue deserves, holds, borrows and waits for, and the cards that its pods hold."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.framework.decision import QueueFigures
from tonnage.overview.noderows import NodeRow
from tonnage.overview.waitingpods import WaitingRow

QueueNumbers = Mapping[str, Mapping[str, QueueFigures]]
"""What a session's queues have of each resource."""


class QueueResource(msgspec.Struct, frozen=True, gc=False):
    """What a queue has of one resource: CPUs, bytes or cards; nothing for no bound."""

    name: str
    deserved: float | None
    fair_share: float | None
    allocated: float
    borrowed: float
    """What it holds beyond what it deserves."""
    waiting: float
    """What its pods ask for beyond what they hold."""


class QueueRow(msgspec.Struct, frozen=True, gc=False):
    """A queue, with shares if a plugin gives queues shares."""

    name: str
    parent: str
    resources: tuple[QueueResource, ...]
    cards: float
    """The sum of the parts of cards that its pods hold."""
    running: int
    """Pods on cards."""
    waiting: int
    """Pods that wait."""
    waiting_cards: int
    """The number of cards that those ask for."""


def queue_rows(
    cluster: Cluster, figures: QueueNumbers, nodes: Iterable[NodeRow], waiting: Iterable[WaitingRow]
) -> list[QueueRow]:
    """A row for each queue that exists or that pods name, in the order of names."""
    cards, pods = _held(nodes)
    asking, asked = Counter[str](), Counter[str]()
    for row in waiting:
        asking[row.queue] += 1
        asked[row.queue] += row.gpus
    names = sorted({*cluster.queues, *figures, *cards, *asking})
    return [
        QueueRow(
            name,
            cluster.queues[name].parent if name in cluster.queues else "",
            tuple([_resource(resource, numbers) for resource, numbers in figures.get(name, {}).items()]),
            cards.get(name, 0.0),
            len(pods.get(name, ())),
            asking[name],
            asked[name],
        )
        for name in names
    ]


def _held(nodes: Iterable[NodeRow]) -> tuple[dict[str, float], dict[str, set[str]]]:
    """The parts of cards that each queue's pods hold, and those pods."""
    cards: dict[str, float] = {}
    pods: dict[str, set[str]] = {}
    for node in nodes:
        for card in node.cards:
            for holder in card.holders:
                part = max(
                    holder.memory / card.memory if card.memory else 0.0,
                    holder.cores / card.cores if card.cores else 0.0,
                )
                cards[holder.queue] = cards.get(holder.queue, 0.0) + min(part, 1.0)
                pods.setdefault(holder.queue, set()).add(holder.pod)
    return cards, pods


def _resource(name: str, numbers: QueueFigures) -> QueueResource:
    deserved, fair, allocated, requested = numbers
    return QueueResource(
        name,
        _bounded(deserved),
        _bounded(fair),
        allocated,
        max(0.0, allocated - deserved),
        max(0.0, requested - allocated),
    )


def _bounded(amount: float) -> float | None:
    return amount if math.isfinite(amount) else None
