"""Scheduling cycle: runs the actions one after another and puts the results into one document."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from tonnage.cluster.task import asks
from tonnage.framework.action import Action
from tonnage.framework.decision import (
    Decision,
    DecisionRecord,
    Eviction,
    JobRecord,
    QueueRecord,
    Reason,
    StaleGang,
    WaitRecord,
)
from tonnage.framework.session import Session
from tonnage.model.problem import Problem


class CycleDocument(msgspec.Struct, frozen=True):
    """The results of one cycle, as they are printed and served."""

    decisions: list[DecisionRecord]
    evictions: list[Eviction]
    jobs: list[JobRecord]
    queues: list[QueueRecord]
    problems: list[Problem]
    stale: list[StaleGang]


@contextmanager
def acting(session: Session, action: Action) -> Iterator[None]:
    """Mark evictions of the `with` block as the action's; if it fails, the session still names the action and job."""
    known = len(session.evictions)
    session.acting, session.at_work = action.name, None
    yield
    session.acting, session.at_work = "", None
    evictions = [msgspec.structs.replace(eviction, action=action.name) for eviction in session.evictions[known:]]
    session.evictions[known:] = evictions


def run_cycle(session: Session, actions: Sequence[Action]) -> list[Decision]:
    """Run the actions; the result is a decision about every waiting pod that was not passed over and had its turn."""
    for action in actions:
        with acting(session, action):
            action.run(session)
    names = ", ".join(action.name for action in actions)
    reason = Reason("NotConsidered", f"none of the actions looks at the pod: {names or 'there are none'}")
    left = [key for key in session.cluster.waiting if key not in session.decisions and key not in session.passed_over]
    for key in sorted(left):
        task = session.cluster.waiting[key]
        if not session.not_reached or session.job_of(task).key not in session.not_reached:
            session.decisions[key] = session.refuse(task, "", reason)
    return list(session.decisions.values())


def document(session: Session, decisions: Sequence[Decision], read_problems: Sequence[Problem] = ()) -> CycleDocument:
    """The document of a cycle; the problems met while reading its objects come first."""
    problems = [*read_problems, *session.cluster.problems(), *session.problems()]
    records = [decision.record() for decision in decisions]
    jobs, queues = _waiting_jobs(session), session.queues.records()
    return CycleDocument(records, session.evictions, jobs, queues, problems, session.stale)


def _waiting_jobs(session: Session) -> list[JobRecord]:
    """Jobs for which no room was made, in the order of names."""
    jobs = {decision.job.key: decision.job for decision in session.decisions.values() if decision.node is None}
    return [
        JobRecord(
            key,
            jobs[key].queue,
            asks(jobs[key].asking()),
            [WaitRecord(action, reason.name, reason.message) for action, reason in session.waits[key].items()],
        )
        for key in sorted(session.waits.keys() & jobs.keys())
    ]
