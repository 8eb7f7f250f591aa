"""Eviction action: what `preempt`, `reclaim` and `consolidation` share, making room for waiting jobs.

Each waiting job is the preemptor once, in the order of queues and jobs. A preemptor that is no easier to place than one
for which no room could be made is not tried.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from itertools import chain

import msgspec

from tonnage.actions.admission import why_held_back
from tonnage.actions.eviction.allotment import Allotment
from tonnage.actions.eviction.disruptions import Disruptions
from tonnage.actions.eviction.inheritance import inherit
from tonnage.actions.eviction.noderoom import HelpfulNodes
from tonnage.actions.eviction.outlook import Prospects
from tonnage.actions.eviction.search import Allows, Search
from tonnage.actions.eviction.searchlimit import SearchLimit
from tonnage.actions.eviction.victims import Victims
from tonnage.actions.jobqueue import JobQueue
from tonnage.actions.subjobs import sub_jobs
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.decision import Decision, Reason
from tonnage.framework.nodesets import NodeSet, SetOf
from tonnage.framework.reasons import NOT_FINISHED
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

MOST_SETS = 8
"""In how many node sets that could hold the preemptor the action searches for victims."""
NEVER = "Never"
"""The preemption policy of pods for which nobody is evicted."""


class EvictionAction(Action):
    """An action that evicts pods so that others can start."""

    def __init__(self) -> None:
        self._limit = SearchLimit()

    def run(self, session: Session) -> None:
        self.make_room(session, session.waiting_jobs(), self._limit)

    def make_room(self, session: Session, waiting: Sequence[Job], limit: SearchLimit | None = None) -> None:
        """Make room for some of the waiting jobs."""
        limit = limit or SearchLimit()
        attempts = _Attempts(self, session, limit)
        jobs = [job for job in waiting if job.key not in session.not_reached and attempts.is_eligible(job)]
        session.at_work = None
        limit.begin(jobs)
        if not jobs:
            return
        job_queue = JobQueue(session, jobs, skips_overused=False)
        while (following := job_queue.next()) is not None:
            session.at_work = following[1]
            attempts.make(*following)
            session.at_work = None
        for queue in session.cluster.queues:
            session.set_next_job(queue, None)

    @abstractmethod
    def why_not(self, session: Session, preemptor: Job, tasks: Sequence[Task]) -> Reason | None:
        """Why the action makes no room for these pods of the preemptor; nothing if it does."""

    @abstractmethod
    def takes_from(self, session: Session, preemptor: Job, queue: str) -> bool:
        """Whether pods of a queue can be victims."""

    def below(self, preemptor: Job) -> int | None:
        """The priority below which jobs can be victims; nothing if all can."""
        return None

    @abstractmethod
    def allows(self, session: Session) -> Allows | None:
        """Which victims need not run again elsewhere; nothing if all must."""

    @abstractmethod
    def reason(self, preemptor: Job) -> str:
        """Why pods were evicted for the preemptor."""


class _Attempts:
    """The attempts of one action to make room in one session."""

    def __init__(self, action: EvictionAction, session: Session, limit: SearchLimit) -> None:
        self._action, self._session, self._limit = action, session, limit
        self._victims: Victims | None = None
        self._helpful = HelpfulNodes(session)
        self._disruptions = Disruptions(session.cluster)
        self._prospects: Prospects
        self._first: dict[str, Job] = {}
        """Per queue the first job for which no room was made; it stays the next job of its queue."""
        self._failed: dict[Hashable, tuple[int, Reason]] = {}
        """For how many pods of a class no room could be made, and why."""

    def is_eligible(self, job: Job) -> bool:
        """Whether a job can be a preemptor at all."""
        session = self._session
        session.at_work = job
        jobs = session.jobs
        return why_held_back(session, job) is None and jobs.why_invalid(job) is None and jobs.is_starving(job)

    def make(self, queue: Queue, preemptor: Job) -> None:
        """Try to make room for the preemptor, and record why that failed."""
        session = self._session
        tasks = starting(session, preemptor)
        if not tasks or any(task.pod.spec.preemptionPolicy == NEVER for task in tasks):
            return
        if not self.is_eligible(preemptor):
            # A preemptor before it has evicted some of its pods, and it cannot start with the waiting ones.
            return
        kinds = frozenset([session.class_key(task) for task in tasks])
        alone = preemptor.key if preemptor.is_kept_together or preemptor.subgroups is not None else ""
        spared = session.spared_by(preemptor)
        kind = (
            queue.name,
            preemptor.priority,
            preemptor.preemptible,
            kinds,
            alone,
            session.why_not_yet(preemptor) is None,
            spared,
        )
        pods, reason = self._failed.get(kind, (len(tasks) + 1, None))
        if reason is None or pods > len(tasks):
            session.set_next_job(queue.name, self._first.get(queue.name, preemptor))
            reason = session.why_not_yet(preemptor) or self._try(queue, preemptor, tasks)
            if reason is None:
                return
            if reason.name != NOT_FINISHED:
                self._failed[kind] = len(tasks), reason
        self._first.setdefault(queue.name, preemptor)
        session.waits.setdefault(preemptor.key, {})[self._action.name] = reason
        for task in preemptor.tasks_that(PodStatus.WAITING):
            if task.key not in session.decisions:
                session.decisions[task.key] = session.refuse(task, self._action.name, reason)

    def _try(self, queue: Queue, preemptor: Job, tasks: Sequence[Task]) -> Reason | None:
        """Make room for the preemptor; the result is the reason why that is not possible."""
        session, action = self._session, self._action
        if self._victims is None:
            self._victims = Victims(session)
            self._prospects = Prospects(session, self._victims)
        queues = [name for name in self._victims.queues() if action.takes_from(session, preemptor, name)]
        below = action.below(preemptor)
        against = action.why_not(session, preemptor, tasks)
        if against is not None:
            outlook = self._prospects.worst(tasks, queues, below)
            if action.allows(session) is None or not outlook.places:
                return against
            return msgspec.structs.replace(against, message=f"{outlook}; {against.message}")
        sets = session.jobs.node_sets(preemptor, tasks)
        if sets is not None and not sets:
            return sets.reason
        tried: Sequence[NodeSet | None] = [None] if sets is None else sets
        outlooks = [(self._prospects.worst(tasks, queues, below, within), within) for within in tried]
        message = str(max(outlook for outlook, _ in outlooks))
        hopeful = [within for outlook, within in outlooks if outlook.places >= outlook.needed]
        if not hopeful:
            return Reason("NoRoomCanBeMade", message)
        for task in tasks:
            never = self._helpful.why_none(task)
            if never:
                return Reason("NoRoomCanBeMade", f"{message}; no eviction would help {task.key}: {never}")
        progress = self._limit.turn(preemptor)
        if progress is None:
            waits = f"it is not the turn of {preemptor.key}: searches for {preemptor.namespace} have their limit"
            return Reason("SearchNotFinished", f"{message}; {waits}")
        self._disruptions.begin()
        spared = session.spared_by(preemptor)
        attempts: list[tuple[SetOf, Disruptions | None]] = []
        for one in hopeful[:MOST_SETS]:
            allotment = Allotment(
                session, preemptor, lambda pods, among: self._prospects.worst(pods, queues, below, among)
            )
            divided = allotment.divide(tasks, one)
            if divided is not None:
                attempts.append((divided, self._disruptions))
            elif allotment.reason is not None:
                message = f"{message}; {allotment.reason.message}"
        if not attempts:
            return Reason("NoRoomCanBeMade", message)
        beyond: list[tuple[SetOf, None]] = []
        for within, disruptions in chain(attempts, beyond):
            with Statement(session) as statement:
                victims = self._disruptions.protected_last(self._victims.stream(queues, below, spared))
                allows, why = action.allows(session), action.reason(preemptor)
                search = Search(
                    statement,
                    session,
                    queue,
                    preemptor,
                    victims,
                    allows,
                    why,
                    self._helpful,
                    progress,
                    within,
                    disruptions,
                )
                if search.run(tasks) and session.jobs.is_pipelined(preemptor):
                    self._prospects.leave(search.plan.evicted)
                    statement.commit()
                    self._limit.ended(preemptor, progress, room_was_made=True)
                    self._record(search.plan.placed)
                    inherit(session, preemptor, search.plan, why)
                    return None
            if progress.is_over:
                break
            if search.is_beyond_budgets:
                beyond.append((within, None))
        self._limit.ended(preemptor, progress, room_was_made=False)
        message += f"; of {search.considered} pods that were looked at enough may go for {len(search.plan.placed)}"
        if search.refused:
            message += f", and others of {' and '.join(sorted(search.refused))} must not"
        first = self._first.get(queue.name)
        if search.refused and first is not None:
            message += f"; the next turn of {queue.name} is that of {first.key}"
        if progress.is_over:
            return Reason("SearchNotFinished", f"{message}; the search goes on in the next cycle")
        return Reason("NoRoomCanBeMade", message)

    def _record(self, placed: Sequence[Decision]) -> None:
        """Let all pods of the preemptor wait until all of its victims have left."""
        leaving = sorted({key for decision in placed for key in decision.waits_for})
        for decision in placed:
            decision.waits_for = leaving
            self._session.decisions[decision.task.key] = decision


def starting(session: Session, job: Job) -> list[Task]:
    """The waiting pods with which a job would start; of a job that has started the next one."""
    tasks = session.jobs.ordered_tasks(job.tasks_that(PodStatus.WAITING))
    if job.group is None:
        return tasks
    if job.subgroups is not None:
        return _starting_sub_jobs(session, job, tasks)
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
    missing = job.minimum - job.with_place() - len(chosen)
    return [*chosen, *others[: max(missing, 0 if chosen else 1)]]


def _starting_sub_jobs(session: Session, job: Job, tasks: Sequence[Task]) -> list[Task]:
    """The pods of the first sub-jobs with which a job would start."""
    chosen: list[Task] = []
    for part in sub_jobs(job, tasks):
        chosen += part.first()
        with job.supposing(chosen):
            if session.jobs.is_pipelined(job):
                break
    return chosen
