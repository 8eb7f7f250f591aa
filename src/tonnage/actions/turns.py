"""Whose turn it is: the queue that is to be served next, and in it the job."""

from bisect import insort
from collections.abc import Iterable
from functools import cmp_to_key

from tonnage.cluster.job import WAITING, Job
from tonnage.cluster.queue import Queue
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session


class Turns:
    """Jobs by queue. The order of queues is asked for again at every turn, because each placement changes it."""

    def __init__(self, session: Session, jobs: Iterable[Job], mind_shares: bool = True) -> None:
        self._session = session
        self._mind_shares = mind_shares
        self._order = cmp_to_key(self._last_comes_next)
        by_queue: dict[str, list[Job]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job)
        self._jobs: dict[str, list[Job]] = {
            # The next one is the last, where it is taken off quickest.
            name: sorted(waiting, key=self._order)
            for name, waiting in by_queue.items()
        }
        self._queues = [session.cluster.queues[name] for name in sorted(self._jobs)]
        for queue in self._queues:
            self._tell_next(queue.name)

    def _last_comes_next(self, one: Job, other: Job) -> int:
        return self._session.compare_jobs(other, one)

    def next(self) -> tuple[Queue, Job] | None:
        """The job to serve now; nothing if none is left."""
        while self._queues:
            queue = self._queues[0]
            if len(self._queues) > 1:
                queue = min(self._queues, key=cmp_to_key(self._session.compare_queues))
            jobs = self._jobs[queue.name]
            overused = self._session.why_overused(queue) if jobs and self._mind_shares else None
            if jobs and overused is None:
                job = jobs.pop()
                self._tell_next(queue.name)
                return queue, job
            self._queues.remove(queue)
            self._session.serve_next(queue.name, None)
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
            for task in job.tasks_that(WAITING):
                self._session.decisions[task.key] = self._session.refuse(task, plugin, reason)
