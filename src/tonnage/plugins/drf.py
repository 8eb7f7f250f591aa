"""Drf: of the jobs of a queue, the one with the smaller dominant share of the cluster first, as in Volcano."""

from collections.abc import Sequence

from tonnage.cluster.job import PIPELINED, PLACED, RUNNING, Job
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.dominant import drf_share
from tonnage.plugins.queuecounts import Counts


class Drf(Plugin):
    """A job's share is the largest part that its pods hold of any resource; plain pods that wait hold nothing."""

    name = "drf"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._counts: Counts | None = None
        self._shares: dict[str, float] = {}
        session.add_job_order(self.order)
        session.add_event_handler(self._forget, self._forget)

    def order(self, one: Job, other: Job) -> int:
        """Below 0 if the first is served before the second."""
        if one.group is None and other.group is None:
            return 0
        mine, others = self._share(one), self._share(other)
        return (mine > others) - (mine < others)

    def _share(self, job: Job) -> float:
        if job.group is None:
            return 0.0
        known = self._shares.get(job.key)
        if known is None:
            known = self._shares[job.key] = self._held(job.tasks_that(RUNNING, PLACED, PIPELINED))
        return known

    def _held(self, tasks: Sequence[Task]) -> float:
        if not tasks:
            return 0.0
        if self._counts is None:
            self._counts = Counts(self._session.cluster, by_kai=False)
        held = [sum(amounts) for amounts in zip(*map(self._counts.of_task, tasks), strict=True)]
        return drf_share(held, self._counts.total)

    def _forget(self, task: Task) -> None:
        self._shares.pop(self._session.job_of(task).key, None)
