"""Giving waiting pods a place, job by job: what `allocate` and `backfill` have in common."""

from collections.abc import Callable, Hashable
from functools import cmp_to_key

from tonnage.actions.turns import Turns
from tonnage.cluster.job import Job
from tonnage.cluster.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import WAITING, Decision, Reason
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement


class Serving:
    """Serves the jobs that have waiting pods of a kind."""

    def __init__(self, session: Session, action: str, wants: Callable[[Task], bool]) -> None:
        self._session = session
        self._action = action
        self._wants = wants
        self._hopeless: set[Hashable] = set()
        """Classes of pods that do not fit even once all leaving pods have left."""

    def run(self) -> None:
        """Serve every job in its turn."""
        session = self._session
        turns = Turns(session, session.waiting_jobs(self._wants))
        while (turn := turns.next()) is not None:
            for decision in self._serve(*turn):
                session.decisions[decision.task.key] = decision

    def _serve(self, queue: Queue, job: Job) -> list[Decision]:
        session = self._session
        waiting = session.cluster.waiting
        tasks = [task for task in job.tasks.values() if task.key in waiting and self._wants(task)]
        invalid = session.why_invalid(job)
        if invalid is not None:
            return [session.refuse(task, *invalid) for task in tasks]
        if len(tasks) > 1:
            tasks.sort(key=cmp_to_key(session.compare_tasks))
        with Statement(session) as statement:
            decisions = [self._place(statement, queue, task) for task in tasks]
            if session.is_ready(job):
                statement.commit()
                return decisions
            if session.is_pipelined(job):
                statement.commit()
                for decision in decisions:
                    decision.outcome = WAITING
                return decisions
        reason = Reason("JobNotReady", f"{job.key} cannot start with the pods that have a place")
        return [d if d.node is None else session.refuse(d.task, self._action, reason) for d in decisions]

    def _place(self, statement: Statement, queue: Queue, task: Task) -> Decision:
        session = self._session
        refused = session.why_not_allocatable(queue, task)
        if refused is not None:
            return session.refuse(task, *refused)
        decision = statement.place(task)
        if decision.node is not None or not session.cluster.leaving:
            return decision
        # Within an action room only shrinks, so what did not fit once need not be tried again.
        kind = session.class_key(task)
        if kind in self._hopeless:
            return decision
        ahead = statement.pipeline(task)
        if ahead.node is not None:
            return ahead
        self._hopeless.add(kind)
        return decision
