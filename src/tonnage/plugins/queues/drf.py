"""Volcano's drf: jobs of a queue share the cluster evenly by dominant share.

The job with the smaller share is served first, and may preempt pods of a job whose share stays at least as large.
"""

from collections.abc import Iterable, Sequence

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.queues._dominantshare import drf_share
from tonnage.plugins.queues._queuetable import Amounts, plus
from tonnage.plugins.queues.queuecounts import QueueCounts

TOLERANCE = 1e-6
"""Shares within this tolerance are equal for preemption."""


class Drf(Plugin, trusted=True):
    """A job's share is the largest part of any resource that its pods hold; waiting single pods hold nothing."""

    name = "drf"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._counts: QueueCounts | None = None
        self._shares: dict[str, float] = {}
        self._holdings: dict[str, Amounts] = {}
        """The holdings of jobs, until one of their pods is placed or evicted."""
        session.add_job_order(self.order)
        session.add_preemptable(self.from_larger)
        session.add_event_handler(self._forget, self._forget)

    def order(self, one: Job, other: Job) -> int:
        """Below 0 if the first is served before the second."""
        if one.group is None and other.group is None:
            return 0
        mine, others = self._share(one), self._share(other)
        return (mine > others) - (mine < others)

    def from_larger(self, job: Job, victims: Sequence[Task]) -> list[Task]:
        """Victims of jobs whose share, without them, is no smaller than the job's share with its request."""
        counts = self._open_counts()
        mine = drf_share(plus(self._held(job), self._sum(job.asking())), counts.total)
        held: dict[str, Amounts] = {}
        allowed = []
        for task in victims:
            other = self._session.job_of(task)
            have = held[other.key] if other.key in held else self._held(other)
            left = [amount - less for amount, less in zip(have, counts.of_task(task), strict=True)]
            if mine <= drf_share(left, counts.total) + TOLERANCE:
                held[other.key] = left
                allowed.append(task)
        return allowed

    def _share(self, job: Job) -> float:
        if job.group is None:
            return 0.0
        known = self._shares.get(job.key)
        if known is None:
            known = self._shares[job.key] = drf_share(self._held(job), self._open_counts().total)
        return known

    def _held(self, job: Job) -> Amounts:
        known = self._holdings.get(job.key)
        if known is None:
            known = self._holdings[job.key] = self._sum(
                job.tasks_that(PodStatus.RUNNING, PodStatus.PLACED, PodStatus.PIPELINED)
            )
        return known

    def _sum(self, tasks: Iterable[Task]) -> Amounts:
        counts = self._open_counts()
        amounts: Amounts = [0] * len(counts.dimensions)
        for task in tasks:
            amounts = plus(amounts, counts.of_task(task))
        return amounts

    def _open_counts(self) -> QueueCounts:
        if self._counts is None:
            self._counts = QueueCounts(self._session.cluster, by_kai=False)
        return self._counts

    def _forget(self, task: Task) -> None:
        key = self._session.job_of(task).key
        self._shares.pop(key, None)
        self._holdings.pop(key, None)
