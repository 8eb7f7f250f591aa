"""Volcano's queue rules of `capacity`: each queue states what it deserves, and its capability."""

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array
from tonnage.framework.decision import Reason
from tonnage.plugins.queues._queuerules import Loss
from tonnage.plugins.queues._queuetable import Amounts, QueueTable, plus, whole_cluster
from tonnage.plugins.queues._volcanoqueues import Key, VolcanoQueues
from tonnage.plugins.queues._waterfill import TOLERANCE, share_of, too_much


class CapacityQueues(VolcanoQueues):
    """A tree of queues, or flat queues. Priorities of the queues themselves count first, then those of the branches."""

    takes_gangs_whole = False
    """A queue that lost a gang beyond what it deserves would hold less than the other, and come first."""

    def __init__(self, table: QueueTable, total: Amounts) -> None:
        most = most_by_tree(table, total)
        super().__init__(table, np.maximum(np.minimum(table.deserved, most), table.guarantee), most)

    def compare(self, one: int, other: int) -> int:
        """Below 0 if the first is served before the second."""
        return self._by_priority(one, other) or super().compare(*self.table.branches(one, other))

    def _by_priority(self, one: int, other: int) -> int:
        queues = self.table.queues
        return queues[other].priority - queues[one].priority

    def _new_key(self, row: int) -> Key:
        return self._key_among(row, range(len(self.table.dimensions)))

    def _key_among(self, row: int, places: Iterable[int]) -> Key:
        """The share, which is 1 if the queue deserves nothing; then queues that deserve something, then the older."""
        deserved = self.deserved[row]
        named = [place for place in places if deserved[place] > 0]
        share = share_of([self.allocated[row][place] for place in named], [deserved[place] for place in named])
        return (share, 0, row) if named else (1, 1, row)

    def why_overused(self, row: int) -> Reason | None:
        """Queues may exceed what they deserve as long as there is room."""
        return None

    def why_not_allocatable(self, row: int, amounts: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue or an ancestor must not get what a pod asks for."""
        for above in self.table.path(row):
            place = too_much(plus(self.allocated[above], amounts), self.most[above], amounts)
            if place is not None:
                dimension = self.table.dimensions[place]
                return Reason(
                    "QueueOverCapability",
                    f"queue {self.table.queues[above].name} holds {dimension.show(self.allocated[above][place])} "
                    f"{dimension.name} and may hold {dimension.show(round(self.most[above][place]))}; "
                    f"{dimension.show(amounts[place])} more are asked for",
                )
        return None

    def reclaimable(self, row: int, request: Amounts, losses: Sequence[Loss]) -> list[bool]:
        """For each loss whether it may be taken: not from a queue that would then come first and reclaim it."""
        allowed = super().reclaimable(row, request, losses)
        then = self.apart()
        for loss, may in zip(losses, allowed, strict=True):
            if may:
                then.charge(loss.row, [-amount for amount in loss.amounts], fixed=False)
        for number, loss in enumerate(losses):
            disputed = [place for place, lost in enumerate(loss.amounts) if lost > 0 and request[place] > 0]
            allowed[number] = allowed[number] and not self._comes_first(then, row, loss.row, disputed)
        return allowed

    def _comes_first(self, then: Self, row: int, loser: int, places: Sequence[int]) -> bool:
        """Whether a queue would, after its loss, hold a smaller part of what it deserves than the reclaiming one."""
        mine, other = self.table.branches(row, loser)
        order = self._by_priority(loser, row)
        return order < 0 or (order == 0 and then._key_among(other, places) < self._key_among(mine, places))

    def why_not_reclaimer(self, row: int, request: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not reclaim what a job asks for: it would exceed what it deserves of all of it."""
        reason = self.why_not_allocatable(row, request, fixed=fixed)
        wanted = [place for place, amount in enumerate(request) if amount > 0]
        if reason is not None or not wanted:
            return reason
        held, deserved = self.allocated[row], self.deserved[row]
        if any(held[place] + request[place] < deserved[place] + TOLERANCE for place in wanted):
            return None
        dimension, place = self.table.dimensions[wanted[0]], wanted[0]
        return Reason(
            "QueueBeyondDeserved",
            f"queue {self.table.queues[row].name} holds {dimension.show(held[place])} {dimension.name} and deserves "
            f"{dimension.show(round(deserved[place]))}; the job asks for {dimension.show(request[place])}",
        )


def most_by_tree(table: QueueTable, total: Amounts) -> Array:
    """What every queue could have at most: its parent's share without others' guarantees, up to its capability."""
    limit = np.where(table.limit >= UNLIMITED, np.inf, table.limit)
    most: Array = np.zeros_like(limit)
    pool = whole_cluster(total).astype(np.float64)
    for number, level in enumerate(table.levels):
        if number:
            pool = most.take(level.parents, axis=1)
        guarantee = table.guarantee[:, level.rows]
        free = np.maximum(pool - np.add.reduceat(guarantee, level.starts, axis=1), 0)
        most[:, level.rows] = np.minimum(free.take(level.owner, axis=1) + guarantee, limit[:, level.rows])
    return most
