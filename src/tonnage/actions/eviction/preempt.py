"""Action `preempt`: evicts pods of lower priority for a job of the same queue."""

from collections.abc import Sequence

from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.actions.eviction.search import Allows
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session


class Preempt(EvictionAction):
    """Makes room within a queue; the plugins say which pods may be evicted."""

    name = "preempt"

    def why_not(self, session: Session, preemptor: Job, tasks: Sequence[Task]) -> Reason | None:
        return None

    def takes_from(self, session: Session, preemptor: Job, queue: str) -> bool:
        return queue == preemptor.queue

    def below(self, preemptor: Job) -> int | None:
        return preemptor.priority

    def allows(self, session: Session) -> Allows | None:
        return session.jobs.preemptable

    def reason(self, preemptor: Job) -> str:
        return f"{preemptor.key} has priority {preemptor.priority}"
