"""Whose turn it is: the queue that is to be served next, and in it the job."""

from bisect import insort
from collections.abc import Iterable
from functools import cmp_to_key

from tonnage.actions.queueorder import QueueOrder
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session


class JobQueue:
    """Jobs by queue."""

    def __init__(self, session: Session, jobs: Iterable[Job], mind_shares: bool = True) -> None:
        self._session = session
        self._mind_shares = mind_shares
        self._order = cmp_to_key(self._last_comes_next)
        self._jobs: dict[str, list[Job]] = {}
        """By queue; the next one is the last, where it is taken off quickest."""
        for job in jobs:
            self._jobs.setdefault(job.queue, []).append(job)
        for name, waiting in self._jobs.items():
            waiting[:] = reversed(session.ordered_jobs(waiting))
            self._tell_next(name)
        self._queues = QueueOrder(session, self._jobs)

    def _last_comes_next(self, one: Job, other: Job) -> int:
        return self._session.compare_jobs(other, one)

    def next(self) -> tuple[Queue, Job] | None:
        """The job to serve now; nothing if none is left."""
        while (queue := self._queues.first()) is not None:
            jobs = self._jobs[queue.name]
            overused = self._session.why_overused(queue) if jobs and self._mind_shares else None
            if jobs and overused is None:
                job = jobs.pop()
                self._tell_next(queue.name)
                return queue, job
            self._queues.drop(queue.name)
            if overused is not None:
                self._conclude(jobs, *overused)
        return None

    def put_back(self, job: Job) -> None:
        """A job that was served has more to ask for; only its own place in the order may have changed meanwhile."""
        insort(self._jobs[job.queue], job, key=self._order)
        self._tell_next(job.queue)

    def _tell_next(self, queue: str) -> None:
        jobs = self._jobs[queue]
        self._session.serve_next(queue, jobs[-1] if jobs else None)

    def _conclude(self, jobs: list[Job], plugin: str, reason: Reason) -> None:
        """The queue had its share: its jobs wait."""
        for job in reversed(jobs):
            for task in job.tasks_that(PodStatus.WAITING):
                self._session.decisions[task.key] = self._session.refuse(task, plugin, reason)
