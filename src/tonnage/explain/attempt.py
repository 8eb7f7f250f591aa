"""An attempt to place the pods with which a job would start: how many fit, and the first that does not."""

from collections.abc import Sequence
from typing import NamedTuple

from tonnage.actions.admission import why_held_back
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, Reason
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

MOST_SETS = 8
"""In how many racks or other sets of nodes pods are tried."""


class Attempt(NamedTuple):
    """The outcome of an attempt."""

    fit: int
    """Pods that find a place."""
    failed: Decision | None = None
    """The decision about the first pod that does not."""
    within: NodeSet | None = None
    """The set of nodes in which most of them fit, if the job must stay in one."""

    @property
    def succeeds(self) -> bool:
        return self.failed is None


def why_never(session: Session, job: Job) -> tuple[str, Reason] | None:
    """Why no pod of a job is tried whatever the nodes are like, and which plugin or action says so."""
    held = why_held_back(session, job)
    return ("admission", held) if held is not None else session.jobs.why_invalid(job)


def try_out(session: Session, job: Job, tasks: Sequence[Task], statement: Statement) -> Attempt:
    """Place all pods in a statement, which keeps the places if all of them have one."""
    mark = len(statement)
    sets = session.jobs.node_sets(job, tasks)
    if sets is not None and not sets:
        return Attempt(0, session.refuse(tasks[0], sets.plugin, sets.reason))
    best: Attempt | None = None
    for within in [None] if sets is None else sets[:MOST_SETS]:
        found = _place_all(session, job, tasks, statement, within)
        if found.succeeds:
            return found
        statement.undo(mark)
        if best is None or found.fit > best.fit:
            best = found
    assert best is not None
    return best


def _place_all(
    session: Session, job: Job, tasks: Sequence[Task], statement: Statement, within: NodeSet | None
) -> Attempt:
    queue = session.cluster.queues[job.queue]
    for number, task in enumerate(tasks):
        refused = session.queues.why_overused(queue) or session.queues.why_not_allocatable(queue, task)
        decision = session.refuse(task, *refused) if refused is not None else statement.place(task, within)
        if decision.node is None:
            return Attempt(number, decision, within)
    return Attempt(len(tasks), None, within)


def fits(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    """Whether all pods find a place; nothing is kept."""
    with Statement(session) as statement:
        return try_out(session, job, tasks, statement).succeeds
