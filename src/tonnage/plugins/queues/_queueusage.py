"""Queue usage in a session: what KAI queues may have and what they hold, kept current.

What a queue may have is fixed within a session, because its jobs request the same whether they run or wait; a placement
only changes the holdings of the queue and its ancestors.
"""

from copy import copy
from operator import gt
from typing import Self

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array
from tonnage.framework.decision import Reason
from tonnage.plugins.queues._queuetable import Amounts, QueueTable, plus, whole_cluster

LastResort = tuple[tuple[int, ...], str, str]


class QueueUsage:
    """All queues by row: amounts per resource as plain integers, the fastest form for one queue at a time."""

    def __init__(self, table: QueueTable, shares: Array, total: Amounts) -> None:
        self.table = table
        self.dimensions = table.dimensions
        self.fair: list[list[int]] = shares.T.tolist()
        self.deserved: list[list[int]] = table.deserved.T.tolist()
        self.limit: list[list[int]] = table.limit.T.tolist()
        allocatable = np.minimum(table.limit, np.maximum(table.deserved, shares))
        self.allocatable: list[list[int]] = allocatable.T.tolist()
        """The fair share or what it deserves, up to its limit."""
        measure = np.where(allocatable >= UNLIMITED, whole_cluster(total), allocatable)
        self.measure: list[list[int]] = measure.T.tolist()
        """The same, with the whole cluster for unlimited: the base of shares in use."""
        self.rank = [-terms.priority for terms in table.queues]
        """The lower, the higher the priority."""
        self.last_resort: list[LastResort] = [
            (tuple(most), terms.created, terms.name) for most, terms in zip(self.allocatable, table.queues, strict=True)
        ]
        """The tie-breaker of equal queues: the queue that may have less, then the older, then by name."""
        self.allocated: list[list[int]] = table.allocated.T.tolist()
        self.fixed: list[list[int]] = table.fixed.T.tolist()

    def apart(self) -> Self:
        """A copy that may be charged separately."""
        other = copy(self)
        other.allocated, other.fixed = list(self.allocated), list(self.fixed)
        return other

    def charge(self, queue: int, amounts: Amounts, *, fixed: bool = False) -> None:
        """Charge a queue and its ancestors for a job that gets resources, or gives them up if amounts are negative."""
        for row in self.table.path(queue):
            self.allocated[row] = plus(self.allocated[row], amounts)
            if fixed:
                self.fixed[row] = plus(self.fixed[row], amounts)

    def why_over_limit(self, queue: int, request: Amounts) -> Reason | None:
        """Why that much would exceed the limit of the queue or an ancestor."""
        for row in self.table.path(queue):
            place = first_above(plus(self.allocated[row], request), self.limit[row], request)
            if place is not None:
                held = self.show(place, self.allocated[row][place])
                return Reason(
                    "QueueOverLimit",
                    f"queue {self.name(row)} holds {held} {self.dimensions[place].name} and may hold "
                    f"{self.show(place, self.limit[row][place])}; the job asks for {self.show(place, request[place])}",
                )
        return None

    def why_over_quota(self, queue: int, request: Amounts) -> Reason | None:
        """Why a non-preemptible job cannot get that much: such jobs stay within what each queue deserves."""
        for row in self.table.path(queue):
            place = first_above(plus(self.fixed[row], request), self.deserved[row], request)
            if place is not None:
                held = self.show(place, self.fixed[row][place])
                return Reason(
                    "NonPreemptibleOverQuota",
                    f"jobs of queue {self.name(row)} that must not be stopped hold {held} "
                    f"{self.dimensions[place].name} and may hold {self.show(place, self.deserved[row][place])}; "
                    f"the job asks for {self.show(place, request[place])}",
                )
        return None

    def name(self, row: int) -> str:
        """The queue's name."""
        return self.table.queues[row].name

    def show(self, place: int, amount: int) -> str:
        """An amount of a resource as text."""
        return self.dimensions[place].show(amount)


def first_above(amounts: Amounts, bounds: Amounts, wanted: Amounts | None = None) -> int | None:
    """The first resource that exceeds its bound; with `wanted`, only among the wanted ones."""
    if not any(map(gt, amounts, bounds)):
        return None
    for place, (amount, bound) in enumerate(zip(amounts, bounds, strict=True)):
        if amount > bound and (wanted is None or wanted[place] > 0):
            return place
    return None
