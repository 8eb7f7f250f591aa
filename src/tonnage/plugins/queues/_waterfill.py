"""Volcano's proportion: what queues deserve by weight, computed by water-filling.

    deserved += remaining × weight ÷ Σ weights      over the queues that want more

for each resource separately, at most what the queue can have and requests, at least its guarantee, repeated with the
rest until nothing is left. Guarantees raise a queue in the first round only; the result of the later rounds is a water
level, which is computed directly. Numbers are floats as in Volcano, and amounts that differ by less than 0.1 are equal.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array
from tonnage.framework.decision import Reason
from tonnage.plugins.queues._queuetable import Amounts, QueueTable, whole_cluster

TOLERANCE = 0.1


def most_possible(table: QueueTable, total: Amounts) -> Array:
    """What every queue could have at most: the cluster without others' guarantees, up to its capability."""
    whole = whole_cluster(total).astype(np.float64)
    free = np.maximum(whole - table.guarantee.sum(axis=1, keepdims=True), 0)
    most: Array = np.minimum(free + table.guarantee, np.where(table.limit >= UNLIMITED, np.inf, table.limit))
    return most


def deserved_by_weight(table: QueueTable, total: Amounts) -> Array:
    """What every queue deserves, as resources × queues. A queue's weight is that of its first resource."""
    most = most_possible(table, total)
    wanted = np.minimum(most, table.request)
    weight = (table.weight[0] if len(table.dimensions) else np.zeros(len(table.queues))).astype(np.float64)
    whole = whole_cluster(total).astype(np.float64)
    at_once = np.minimum(whole * (weight / max(weight.sum(), 1)), wanted)
    deserved: Array = np.maximum(at_once, table.guarantee)
    remaining = np.maximum(whole - deserved.sum(axis=1, keepdims=True), 0)
    return deserved + _fill(np.maximum(wanted - deserved, 0), weight, remaining)


def _fill(room: Array, weight: Array, amount: Array) -> Array:
    """How much each vessel takes of an amount poured into all of them, until it or all room is gone."""
    room = np.where(weight > 0, room, 0)
    height = room / np.maximum(weight, 1)
    order = np.argsort(height, axis=1, kind="stable")
    height, widths = np.take_along_axis(height, order, axis=1), weight[order]
    full = np.cumsum(np.take_along_axis(room, order, axis=1), axis=1)
    open_widths = weight.sum() - np.cumsum(widths, axis=1)
    # The total when the water stands as high as each vessel, the lowest first.
    held = full + height * open_widths
    rising = held < amount
    below = np.where(rising, full, 0).max(axis=1, initial=0, keepdims=True)
    width = weight.sum() - np.where(rising, widths, 0).sum(axis=1, keepdims=True)
    top = height.max(axis=1, initial=0, keepdims=True)
    level = np.where(width > 0, (amount - below) / np.maximum(width, 1), top)
    taken: Array = np.minimum(room, level * weight)
    return taken


def too_much(amounts: Sequence[float], bounds: Sequence[float], asked: Sequence[float] | None = None) -> int | None:
    """The first resource that exceeds its bound, among those asked for; nothing if all fit."""
    for place, (amount, bound) in enumerate(zip(amounts, bounds, strict=True)):
        if amount >= bound + TOLERANCE and (asked is None or asked[place] > 0):
            return place
    return None


def may_lose(
    held: Amounts, lost: Amounts, request: Amounts, deserved: Sequence[float], guarantee: Sequence[float]
) -> bool:
    """Whether a queue may lose a pod to a job of another queue.

    The pod must give up a resource that the job asks for and of which the queue holds more than it deserves. A pod that
    holds nothing of what the queue deserves may go. The queue always keeps its guarantee.
    """
    helps = is_above = is_due = False
    for place, less in enumerate(lost):
        if not less:
            continue
        if held[place] - less < guarantee[place]:
            return False
        is_asked = request[place] > 0
        helps = helps or is_asked
        is_due = is_due or deserved[place] > 0
        is_above = is_above or (is_asked and deserved[place] > 0 and held[place] >= deserved[place] + TOLERANCE)
    return helps and (is_above or not is_due)


def share_of(allocated: Sequence[float], deserved: Sequence[float]) -> float:
    """The largest share that a queue holds of what it deserves; any use of an undeserved resource counts as 1."""
    shares = [held / right if right else float(held > 0) for held, right in zip(allocated, deserved, strict=True)]
    return max(shares, default=0.0)


def why_overused(table: QueueTable, queue: int, allocated: Sequence[float], deserved: Sequence[float]) -> Reason | None:
    """Why a queue is overused: it holds everything that it deserves."""
    if too_much(deserved, allocated) is not None:
        return None
    return Reason("QueueOverused", f"queue {_name(table, queue)} holds all that it deserves: {_show(table, deserved)}")


def why_not_allocatable(
    table: QueueTable,
    queue: int,
    request: Amounts,
    allocated: Sequence[float],
    deserved: Sequence[float],
    who: str = "pod",
) -> Reason | None:
    """Why a queue must not get what a pod or job asks for: it would exceed what it deserves."""
    place = too_much([held + asked for held, asked in zip(allocated, request, strict=True)], deserved, request)
    if place is None:
        return None
    show = table.dimensions[place].show
    return Reason(
        "QueueBeyondDeserved",
        f"queue {_name(table, queue)} holds {show(round(allocated[place]))} {table.dimensions[place].name} and "
        f"deserves {show(round(deserved[place]))}; the {who} asks for {show(request[place])}",
    )


def _name(table: QueueTable, queue: int) -> str:
    return table.queues[queue].name


def _show(table: QueueTable, amounts: Sequence[float]) -> str:
    shown = [
        f"{dimension.show(round(amount))} {dimension.name}"
        for dimension, amount in zip(table.dimensions, amounts, strict=True)
        if amount > 0
    ]
    return ", ".join(shown) or "nothing"
