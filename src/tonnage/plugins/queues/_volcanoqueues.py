"""Volcano's queue rules of `proportion`: flat queues that deserve the cluster by weight."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self

from tonnage.cluster.columns import Array
from tonnage.framework.decision import Reason
from tonnage.plugins.queues._queuerules import Loss
from tonnage.plugins.queues._queuetable import Amounts, QueueTable, plus
from tonnage.plugins.queues._waterfill import may_lose, share_of, too_much, why_not_allocatable, why_overused

Key = tuple[float, ...]


class VolcanoQueues:
    """What queues deserve and could have at most, both as resources × queues, and what they hold."""

    takes_gangs_whole = True

    def __init__(self, table: QueueTable, deserved: Array, most: Array) -> None:
        self.table = table
        self.deserved: list[list[float]] = deserved.T.tolist()
        self.fair = self.deserved
        self.most: list[list[float]] = most.T.tolist()
        self.guarantee: list[list[int]] = table.guarantee.T.tolist()
        self.allocated: list[list[int]] = table.allocated.T.tolist()
        self._keys: dict[int, Key] = {}

    def apart(self) -> Self:
        """A copy that may be charged separately."""
        other = copy(self)
        other.allocated, other._keys = list(self.allocated), {}
        return other

    def charge(self, row: int, amounts: Amounts, *, fixed: bool) -> None:
        """Charge a queue for a job that gets resources, or gives them up if the amounts are negative."""
        for above in self.table.path(row):
            self.allocated[above] = plus(self.allocated[above], amounts)
        self.forget(row)

    def give_up(self, row: int, amounts: Amounts) -> None:
        """Count what a queue gives up to others while the order of victims is made."""
        self.charge(row, [-amount for amount in amounts], fixed=False)

    def forget(self, row: int) -> None:
        """Drop the sort keys of a queue that changed."""
        for above in self.table.path(row):
            self._keys.pop(above, None)

    def compare(self, one: int, other: int) -> int:
        """Below 0 if the first is served before the second."""
        mine, others = self._key(one), self._key(other)
        return (mine > others) - (mine < others)

    def _key(self, row: int) -> Key:
        known = self._keys.get(row)
        if known is None:
            known = self._keys[row] = self._new_key(row)
        return known

    def _new_key(self, row: int) -> Key:
        return -self.table.queues[row].priority, share_of(self.allocated[row], self.deserved[row])

    def why_overused(self, row: int) -> Reason | None:
        """Why a queue is overused."""
        return why_overused(self.table, row, self.allocated[row], self.deserved[row])

    def why_not_allocatable(self, row: int, amounts: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not get what a pod asks for."""
        return why_not_allocatable(self.table, row, amounts, self.allocated[row], self.deserved[row])

    def why_not_reclaimer(self, row: int, request: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not reclaim what a job asks for: it is overused, or would be with the job."""
        held, deserved = self.allocated[row], self.deserved[row]
        return self.why_overused(row) or why_not_allocatable(self.table, row, request, held, deserved, "job")

    def reclaimable(self, row: int, request: Amounts, losses: Sequence[Loss]) -> list[bool]:
        """For each loss whether the queue may take it for a job."""
        left: dict[int, list[int]] = {}
        allowed = []
        for victim, lost in losses:
            held = left.get(victim, self.allocated[victim])
            may = victim != row and may_lose(held, lost, request, self.deserved[victim], self.guarantee[victim])
            if may:
                left[victim] = [have - less for have, less in zip(held, lost, strict=True)]
            allowed.append(may)
        return allowed

    def may_enqueue(self, row: int, request: Amounts, inqueue: Mapping[int, Amounts]) -> bool | None:
        """Whether the queue could have a job's `minResources` beside its holdings and inqueue resources."""
        for above in self.table.path(row):
            amounts = plus(self.allocated[above], request)
            if above in inqueue:
                amounts = plus(amounts, inqueue[above])
            if too_much(amounts, self.most[above], request) is not None:
                return False
        return True
