"""Volcano's rules for queues while pods are placed: they stand side by side and deserve the cluster by weight."""

from tonnage.framework.decision import Reason
from tonnage.plugins.queuecounts import Counts
from tonnage.plugins.queuetable import Amounts, QueueTable, plus
from tonnage.plugins.waterfill import deserved_by_weight, share_of, why_not_allocatable, why_overused

Key = tuple[int, float]


class VolcanoQueues:
    """What queues deserve, and what they hold."""

    def __init__(self, table: QueueTable, counts: Counts) -> None:
        self.table = table
        self.deserved: list[list[float]] = deserved_by_weight(table, counts.total).T.tolist()
        self.fair = self.deserved
        self.allocated: list[list[int]] = table.allocated.T.tolist()
        self._keys: dict[int, Key] = {}

    def charge(self, row: int, amounts: Amounts, *, fixed: bool) -> None:
        """A job of the queue gets something, or gives it up if the amounts are below 0."""
        self.allocated[row] = plus(self.allocated[row], amounts)
        self.forget(row)

    def forget(self, row: int) -> None:
        """The queue has changed."""
        self._keys.pop(row, None)

    def compare(self, one: int, other: int) -> int:
        """Below 0 if the first is served before the second."""
        mine, others = self._key(one), self._key(other)
        return (mine > others) - (mine < others)

    def _key(self, row: int) -> Key:
        known = self._keys.get(row)
        if known is None:
            share = share_of(self.allocated[row], self.deserved[row])
            known = self._keys[row] = -self.table.queues[row].priority, share
        return known

    def why_overused(self, row: int) -> Reason | None:
        """Why a queue has had its share."""
        return why_overused(self.table, row, self.allocated[row], self.deserved[row])

    def why_not_allocatable(self, row: int, amounts: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not get what a pod asks for."""
        return why_not_allocatable(self.table, row, amounts, self.allocated[row], self.deserved[row])
