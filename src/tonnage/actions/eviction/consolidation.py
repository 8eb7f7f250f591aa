"""Consolidation: move running jobs closer together so that a waiting one fits, and everybody runs again."""

from collections.abc import Sequence

from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.actions.eviction.outlook import lacks_in_all
from tonnage.actions.eviction.search import Allows
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session
from tonnage.model.resources import show


class Consolidation(EvictionAction):
    """Makes room without anybody losing any: whoever has to go has another place in the same plan."""

    name = "consolidation"

    def why_not(self, session: Session, job: Job, tasks: Sequence[Task]) -> Reason | None:
        if job.preemptible:
            lacking = lacks_in_all(session, tasks)
            if lacking is None:
                return None
            name, need, there = lacking
            message = f"{job.key} asks for {show(name, need)} {name}, and {show(name, there)} is free in all"
            return Reason("NotEnoughInAll", message)
        return Reason("MustNotBeMoved", f"nobody is moved for {job.key}, which could not be moved itself")

    def takes_from(self, session: Session, job: Job, queue: str) -> bool:
        return True

    def allows(self, session: Session) -> Allows | None:
        return None

    def reason(self, job: Job) -> str:
        return f"moved so that {job.key} fits"
