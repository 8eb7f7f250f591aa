"""Action `consolidation`: moves running pods closer together so that a waiting job fits."""

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
    """Makes room at nobody's expense: every victim gets another place in the same statement."""

    name = "consolidation"

    def why_not(self, session: Session, preemptor: Job, tasks: Sequence[Task]) -> Reason | None:
        if preemptor.preemptible:
            lacking = lacks_in_all(session, tasks)
            if lacking is None:
                return None
            name, need, there = lacking
            message = f"{preemptor.key} asks for {show(name, need)} {name}, and {show(name, there)} is free in all"
            return Reason("NotEnoughInAll", message)
        return Reason("MustNotBeMoved", f"nobody is moved for {preemptor.key}, which could not be moved itself")

    def takes_from(self, session: Session, preemptor: Job, queue: str) -> bool:
        return True

    def allows(self, session: Session) -> Allows | None:
        return None

    def reason(self, preemptor: Job) -> str:
        return f"moved so that {preemptor.key} fits"
