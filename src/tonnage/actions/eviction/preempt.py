"""Preempt: stop less important jobs of a queue for a more important one of the same queue."""

from collections.abc import Sequence

from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.actions.eviction.search import Allows
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session


class Preempt(EvictionAction):
    """Makes room within a queue; which pods may be stopped is up to the plugins."""

    name = "preempt"

    def why_not(self, session: Session, job: Job, tasks: Sequence[Task]) -> Reason | None:
        return None

    def takes_from(self, session: Session, job: Job, queue: str) -> bool:
        return queue == job.queue

    def below(self, job: Job) -> int | None:
        return job.priority

    def allows(self, session: Session) -> Allows | None:
        return session.jobs.preemptable

    def reason(self, job: Job) -> str:
        return f"{job.key} has priority {job.priority}"
