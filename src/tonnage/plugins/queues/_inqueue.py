"""Inqueue resources: the part of enqueued groups' `minResources` that their pods do not hold yet.

As in Volcano, nothing is kept for pods with scheduling gates.
"""

from collections.abc import Iterable, Sequence

from tonnage.cluster.jobs.group import Group
from tonnage.cluster.jobs.job import HAVE_PLACES, Job, PodStatus, is_promised
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE
from tonnage.cluster.task import Task
from tonnage.framework.session import Session
from tonnage.plugins.queues._queuetable import Amounts, plus
from tonnage.plugins.queues.queuecounts import QueueCounts


class InqueueResources:
    """By queue, what groups lack of their `minResources`, and what they hold beyond them.

    Groups are counted once; groups enqueued later in the session are added on the next call.
    """

    def __init__(self, session: Session, counts: QueueCounts) -> None:
        self._session, self._counts = session, counts
        self._lacking: dict[str, Amounts] = {}
        self._spare: dict[str, Amounts] = {}
        self._seen = len(session.enqueued)
        let_in = {job.key for job in session.enqueued}
        for group in session.cluster.groups.groups.values():
            if group.min_resources:
                self._count(group, session.cluster.groups.jobs.get(group.key), group.key in let_in)

    def start_of(self, job: Job) -> Amounts:
        """The `minResources` of a job."""
        return [] if job.group is None else self._counts.of_shares(job.group.min_resources, absent=0)

    def lacking(self) -> dict[str, Amounts]:
        """What enqueued groups still lack, by queue."""
        for job in self._session.enqueued[self._seen :]:
            self._add(self._lacking, job.queue, _less(self.start_of(job), self._gated(job)))
        self._seen = len(self._session.enqueued)
        return self._lacking

    def net(self) -> dict[str, Amounts]:
        """What they lack, less what groups of the queue hold beyond their `minResources` and could spare."""
        lacking = self.lacking()
        nothing = [0] * len(self._counts.dimensions)
        return {
            queue: [
                less - more
                for less, more in zip(lacking.get(queue, nothing), self._spare.get(queue, nothing), strict=True)
            ]
            for queue in {**lacking, **self._spare}
        }

    def _count(self, group: Group, job: Job | None, is_let_in: bool) -> None:
        queue = job.queue if job is not None else group.queue or DEFAULT_QUEUE
        start = self._counts.of_shares(group.min_resources, absent=0)
        held = self._sum(job.tasks_that(*HAVE_PLACES) if job is not None else ())
        if is_let_in or is_promised(group, job):
            self._add(self._lacking, queue, _less(start, plus(held, self._gated(job))))
        self._add(self._spare, queue, _less(held, start))

    def _gated(self, job: Job | None) -> Amounts:
        """What pods ask for that must not be scheduled yet."""
        waiting = job.tasks_that(PodStatus.WAITING) if job is not None else ()
        return self._sum([task for task in waiting if task.pod.spec.schedulingGates])

    def _sum(self, tasks: Iterable[Task]) -> Amounts:
        held: Amounts = [0] * len(self._counts.dimensions)
        for task in tasks:
            held = plus(held, self._counts.of_task(task))
        return held

    @staticmethod
    def _add(sums: dict[str, Amounts], queue: str, amounts: Sequence[int]) -> None:
        sums[queue] = plus(sums[queue], amounts) if queue in sums else amounts


def _less(amounts: Amounts, others: Amounts) -> Amounts:
    """Amounts without others, at least 0."""
    return [max(one - other, 0) for one, other in zip(amounts, others, strict=True)]
