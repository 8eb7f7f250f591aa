"""Making room for waiting jobs: what `preempt`, `reclaim` and `consolidation` have in common.

Jobs come in their turn. One that is not easier than another for which no room could be made is not tried.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence

import msgspec

from tonnage.actions.admission import why_held_back
from tonnage.actions.eviction.outlook import Prospects
from tonnage.actions.eviction.search import Allows, Search
from tonnage.actions.eviction.victims import Victims
from tonnage.actions.jobqueue import JobQueue
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.decision import Decision, Reason
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

MOST_SETS = 8
"""In how many racks or zones that could hold a job room is looked for."""
NEVER = "Never"
"""The preemption policy of pods for which nobody is stopped."""


class EvictionAction(Action):
    """An action that stops pods so that others can start."""

    def run(self, session: Session) -> None:
        self.serve(session, session.waiting_jobs())

    def serve(self, session: Session, waiting: Sequence[Job]) -> None:
        """Make room for some of the waiting jobs."""
        attempts = _Attempts(self, session)
        jobs = [job for job in waiting if attempts.is_open(job)]
        if not jobs:
            return
        job_queue = JobQueue(session, jobs, mind_shares=False)
        while (turn := job_queue.next()) is not None:
            attempts.make(*turn)
        for queue in session.cluster.queues:
            session.serve_next(queue, None)

    @abstractmethod
    def why_not(self, session: Session, job: Job, tasks: Sequence[Task]) -> Reason | None:
        """Why no room is made for these pods of a job; nothing if it may be."""

    @abstractmethod
    def takes_from(self, session: Session, job: Job, queue: str) -> bool:
        """Whether pods of a queue come into question."""

    def below(self, job: Job) -> int | None:
        """Below which priority jobs come into question; nothing if all do."""
        return None

    @abstractmethod
    def allows(self, session: Session) -> Allows | None:
        """Which of them may be lost; nothing if none may."""

    @abstractmethod
    def reason(self, job: Job) -> str:
        """Why pods were stopped for a job."""


class _Attempts:
    """The attempts of one action in one session."""

    def __init__(self, action: EvictionAction, session: Session) -> None:
        self._action, self._session = action, session
        self._victims: Victims | None = None
        self._prospects: Prospects
        self._first: dict[str, Job] = {}
        """The first job of each queue for which no room was made: the queue's next turn is its."""
        self._failed: dict[Hashable, tuple[int, Reason]] = {}
        """For how many pods of a kind no room could be made, and why."""

    def is_open(self, job: Job) -> bool:
        """Whether a job comes into question at all."""
        session = self._session
        return why_held_back(session, job) is None and session.why_invalid(job) is None

    def make(self, queue: Queue, job: Job) -> None:
        """Try to make room for a job, and say why not."""
        session = self._session
        tasks = starting(session, job)
        if not tasks or any(task.pod.spec.preemptionPolicy == NEVER for task in tasks):
            return
        if not self.is_open(job):
            # It has lost pods to a job before it, and cannot start with those that wait.
            return
        kinds = frozenset([session.class_key(task) for task in tasks])
        alone = job.key if job.is_kept_together else ""
        kind = queue.name, job.priority, job.preemptible, kinds, alone, session.why_not_yet(job) is None
        pods, reason = self._failed.get(kind, (len(tasks) + 1, None))
        if reason is None or pods > len(tasks):
            session.serve_next(queue.name, self._first.get(queue.name, job))
            reason = session.why_not_yet(job) or self._try(queue, job, tasks)
            if reason is None:
                return
            self._failed[kind] = len(tasks), reason
        self._first.setdefault(queue.name, job)
        session.waits.setdefault(job.key, {})[self._action.name] = reason
        for task in job.tasks_that(PodStatus.WAITING):
            if task.key not in session.decisions:
                session.decisions[task.key] = session.refuse(task, self._action.name, reason)

    def _try(self, queue: Queue, job: Job, tasks: Sequence[Task]) -> Reason | None:
        """Make room for a job, or say why that is not possible."""
        session, action = self._session, self._action
        if self._victims is None:
            self._victims = Victims(session)
            self._prospects = Prospects(session, self._victims)
        queues = [name for name in self._victims.queues() if action.takes_from(session, job, name)]
        below = action.below(job)
        against = action.why_not(session, job, tasks)
        if against is not None:
            outlook = self._prospects.worst(tasks, queues, below)
            if action.allows(session) is None or not outlook.places:
                return against
            return msgspec.structs.replace(against, message=f"{outlook}; {against.message}")
        sets = session.node_sets(job, tasks)
        if sets is not None and not sets:
            return sets.reason
        tried: Sequence[NodeSet | None] = [None] if sets is None else sets
        outlooks = [(self._prospects.worst(tasks, queues, below, within), within) for within in tried]
        message = str(max(outlook for outlook, _ in outlooks))
        hopeful = [within for outlook, within in outlooks if outlook.places >= outlook.needed]
        if not hopeful:
            return Reason("NoRoomCanBeMade", message)
        for within in hopeful[:MOST_SETS]:
            with Statement(session) as statement:
                victims = self._victims.stream(queues, below)
                allows, why = action.allows(session), action.reason(job)
                search = Search(statement, session, queue, job, victims, allows, why, within)
                if search.run(tasks) and session.is_pipelined(job):
                    statement.commit()
                    self._prospects.leave(search.evicted)
                    self._record(search.placed)
                    return None
        message += f"; of {search.considered} pods that were looked at enough may go for {len(search.placed)}"
        if search.refused:
            message += f", and others of {' and '.join(sorted(search.refused))} must not"
        first = self._first.get(queue.name)
        if search.refused and first is not None:
            message += f"; the next turn of {queue.name} is that of {first.key}"
        return Reason("NoRoomCanBeMade", message)

    def _record(self, placed: Sequence[Decision]) -> None:
        """All pods wait until all have left who have to go for any of them."""
        leaving = sorted({key for decision in placed for key in decision.waits_for})
        for decision in placed:
            decision.waits_for = leaving
            self._session.decisions[decision.task.key] = decision


def starting(session: Session, job: Job) -> list[Task]:
    """The waiting pods with which a job would start, or the next one of a job that has started."""
    tasks = session.ordered(job.tasks_that(PodStatus.WAITING))
    if job.group is None:
        return tasks
    lacking = job.lacking()
    chosen: list[Task] = []
    others: list[Task] = []
    for task in tasks:
        role = job.group.role(task.pod) if job.roles else None
        if role is not None and lacking.get(role, 0) > 0:
            lacking[role] -= 1
            chosen.append(task)
        else:
            others.append(task)
    missing = job.minimum - job.promised() - len(chosen)
    return [*chosen, *others[: max(missing, 0 if chosen else 1)]]
