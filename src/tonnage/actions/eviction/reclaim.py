"""Action `reclaim`: evicts pods of queues beyond their share for a job of a queue below its share."""

from collections.abc import Sequence

from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.actions.eviction.search import Allows
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session


class Reclaim(EvictionAction):
    """Makes room across queues; the plugins that keep shares say who may reclaim from whom."""

    name = "reclaim"

    def why_not(self, session: Session, preemptor: Job, tasks: Sequence[Task]) -> Reason | None:
        against = session.jobs.why_not_reclaimer(preemptor, tasks)
        return None if against is None else against[1]

    def takes_from(self, session: Session, preemptor: Job, queue: str) -> bool:
        return queue != preemptor.queue and session.cluster.queues[queue].reclaimable

    def allows(self, session: Session) -> Allows | None:
        return session.jobs.reclaimable

    def reason(self, preemptor: Job) -> str:
        return f"queue {preemptor.queue} takes back its share"
