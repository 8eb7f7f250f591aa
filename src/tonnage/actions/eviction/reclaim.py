"""Reclaim: stop jobs of queues that have more than their share for a job of a queue that has less."""

from collections.abc import Sequence

from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.actions.eviction.search import Allows
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session


class Reclaim(EvictionAction):
    """Makes room across queues; who may reclaim from whom is up to the plugins that keep shares."""

    name = "reclaim"

    def why_not(self, session: Session, job: Job, tasks: Sequence[Task]) -> Reason | None:
        against = session.jobs.why_not_reclaimer(job, tasks)
        return None if against is None else against[1]

    def takes_from(self, session: Session, job: Job, queue: str) -> bool:
        return queue != job.queue and session.cluster.queues[queue].reclaimable

    def allows(self, session: Session) -> Allows | None:
        return session.jobs.reclaimable

    def reason(self, job: Job) -> str:
        return f"queue {job.queue} takes back its share"
