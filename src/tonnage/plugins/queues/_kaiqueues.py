"""KAI's queue rules: the order of queues, their limits, and what they may reclaim from others."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import reduce
from typing import Self

from tonnage.cluster.jobs.job import Job
from tonnage.framework.decision import Reason
from tonnage.plugins.queues._dominantshare import QueueKey, order_key
from tonnage.plugins.queues._fairshare import divide
from tonnage.plugins.queues._kaireclaim import reclaimable, why_beyond_fair_share
from tonnage.plugins.queues._queuerules import Loss
from tonnage.plugins.queues._queuetable import Amounts, QueueTable, plus
from tonnage.plugins.queues._queueusage import QueueUsage
from tonnage.plugins.queues.queuecounts import QueueCounts


class KaiQueues:
    """A tree of queues. Branches are compared where they part, each with the job that it would run next."""

    takes_gangs_whole = True

    def __init__(
        self, table: QueueTable, counts: QueueCounts, next_jobs: Mapping[str, Job], saturation_multiplier: float = 1.0
    ) -> None:
        self._usage = QueueUsage(table, divide(table, counts.total), counts.total)
        self._counts = counts
        self._next_jobs = next_jobs
        self._saturation_multiplier = saturation_multiplier
        self._children: dict[int, list[int]] = {}
        for row, parent in enumerate(table.parent):
            self._children.setdefault(parent, []).append(row)
        self._keys: dict[int, tuple[QueueKey, Amounts | None]] = {}
        """For each queue its sort key, and the request of the job that it would run next."""
        self._given_up: dict[int, Amounts] = {}
        """What queues give up to others, descendants included; nothing where shares are kept."""
        self.table = table
        self.deserved, self.fair = self._usage.deserved, self._usage.fair

    @property
    def allocated(self) -> list[list[int]]:
        """What each queue holds, by row."""
        return self._usage.allocated

    def apart(self) -> Self:
        """A copy that may be charged separately; no queue has a next job."""
        other = copy(self)
        other._usage, other._next_jobs, other._keys, other._given_up = self._usage.apart(), {}, {}, {}
        return other

    def charge(self, row: int, amounts: Amounts, *, fixed: bool) -> None:
        """Charge a queue for a job that gets resources, or gives them up if the amounts are negative."""
        self._usage.charge(row, amounts, fixed=fixed)
        self.forget(row)

    def give_up(self, row: int, amounts: Amounts) -> None:
        """Count what a queue gives up to others while the order of victims is made."""
        for above in self.table.path(row):
            known = self._given_up.get(above)
            self._given_up[above] = amounts if known is None else plus(known, amounts)
        self.forget(row)

    def forget(self, row: int) -> None:
        """Drop the sort keys of a queue that changed, or whose next job did."""
        for above in self.table.path(row):
            self._keys.pop(above, None)

    def compare(self, one: int, other: int) -> int:
        """Below 0 if the first is served before the second."""
        left, right = self.table.branches(one, other)
        mine, others = self._key(left)[0], self._key(right)[0]
        return (mine > others) - (mine < others)

    def _key(self, row: int) -> tuple[QueueKey, Amounts | None]:
        known = self._keys.get(row)
        if known is None:
            job = self._next_request(row)
            known = self._keys[row] = order_key(self._usage, row, job, given_up=self._given_up.get(row)), job
        return known

    def _next_request(self, row: int) -> Amounts | None:
        """The request of the job that the queue, or the first of its descendants, would run next."""
        below = [self._key(child) for child in self._children.get(row, ())]
        if below:
            waiting = [one for one in below if one[1] is not None]
            return min(waiting)[1] if waiting else None
        job = self._next_jobs.get(self.table.queues[row].name)
        return None if job is None else self._start_of(job)

    def _start_of(self, job: Job) -> Amounts:
        """The request of a job's next turn: everything that it lacks to start, or one pod."""
        asked = [self._counts.of_task(task) for task in job.asking()]
        return reduce(plus, asked) if asked else [0] * len(self.table.dimensions)

    def why_overused(self, row: int) -> Reason | None:
        """KAI serves queues beyond their share as long as there is room."""
        return None

    def why_not_allocatable(self, row: int, amounts: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not get what a pod asks for."""
        reason = self._usage.why_over_limit(row, amounts)
        return reason or (self._usage.why_over_quota(row, amounts) if fixed else None)

    def why_not_reclaimer(self, row: int, request: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not reclaim what a job asks for."""
        reason = why_beyond_fair_share(self._usage, row, request)
        return reason or (self._usage.why_over_quota(row, request) if fixed else None)

    def reclaimable(self, row: int, request: Amounts, losses: Sequence[Loss]) -> list[bool]:
        """For each loss whether the queue may take it for a job."""
        following = self._next_request(row) or request
        return reclaimable(self._usage, row, request, following, losses, self._saturation_multiplier)

    def may_enqueue(self, row: int, request: Amounts, inqueue: Mapping[int, Amounts]) -> bool | None:
        """KAI enqueues every job."""
        return None
