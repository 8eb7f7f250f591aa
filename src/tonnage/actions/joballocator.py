"""Giving waiting pods a place, job by job: what `allocate` and `backfill` have in common.

A job that lacks pods gets all that it needs to start in one statement, or nothing. Beyond that it gets one pod per
turn, so that queues and jobs take turns. Pods are tried in order, without searching for a better combination: the first
pod without a place ends the attempt, unless those that remain can still be enough. If plugins say which sets of nodes
will do for the job as a whole, each of them is tried in that way until one holds it.
"""

from collections.abc import Callable, Hashable, Sequence

import msgspec

from tonnage.actions.admission import why_held_back
from tonnage.actions.jobqueue import JobQueue
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, DecisionOutcome, Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement


class _Attempt:
    """What came of trying to give the pods of one job places."""

    def __init__(self, tasks: list[Task], among: NodeSet | None = None) -> None:
        self.among = among
        """The nodes on which places are looked for; all if nothing is said."""
        self.left = tasks
        """Pods that were not tried yet, in their order."""
        self.found: list[Decision] = []
        self.failed: list[Decision] = []

    @property
    def failed_anywhere(self) -> bool:
        """Whether pods without a place would have none on other nodes either."""
        others = [d for d in self.failed if d.is_of_class and d.outcome != DecisionOutcome.WAITING]
        return bool(self.failed) and not others


class JobAllocator:
    """Serves the jobs that have waiting pods of a kind."""

    def __init__(
        self, session: Session, action: str, wants: Callable[[Task], bool], *, mind_shares: bool = True
    ) -> None:
        self._session = session
        self._action = action
        self._wants = wants
        self._mind_shares = mind_shares
        self._hopeless: set[Hashable] = set()
        """Classes of pods that do not fit even once all leaving pods have left."""
        self._left: dict[Job, list[Task]] = {}
        """The pods of jobs that were served before which have not been tried."""

    def run(self) -> None:
        """Serve every job in its turn."""
        session = self._session
        jobs: list[Job] = []
        for job in session.waiting_jobs(self._wants):
            reason = why_held_back(session, job)
            if reason is None:
                jobs.append(job)
            else:
                self._refuse(self._wanted(job), self._action, reason)
        job_queue = JobQueue(session, jobs, self._mind_shares)
        while (turn := job_queue.next()) is not None:
            if self._serve(*turn):
                job_queue.put_back(turn[1])

    def _serve(self, queue: Queue, job: Job) -> bool:
        """Give a job what it needs to start, or one more pod; whether it has pods left for another turn."""
        tasks = self._left.pop(job, None)
        if tasks is None:
            invalid = self._session.why_invalid(job)
            if invalid is not None:
                self._refuse(self._wanted(job), *invalid)
                return False
            tasks = self._candidates(job)
        if job.maximum is not None and job.promised() >= job.maximum:
            message = f"{job.key} has places for {job.promised()} pods, and may have {job.maximum}"
            self._refuse(tasks, self._action, Reason("EnoughPods", message))
            return False
        sets = self._session.node_sets(job, tasks)
        if sets is not None:
            return self._serve_within(sets, queue, job, tasks)
        attempt = _Attempt(tasks)
        with Statement(self._session) as statement:
            self._try(statement, queue, job, attempt)
            return self._conclude(statement, job, attempt)

    def _serve_within(self, sets: NodeSets, queue: Queue, job: Job, tasks: list[Task]) -> bool:
        """The same on the nodes of one set: the first that holds the job now, else the first that will."""
        session = self._session
        later: NodeSet | None = None
        most, reason = 0, sets.reason
        for one in [one for one in sets if one.has_room]:
            attempt = _Attempt(list(tasks), one)
            with Statement(session) as statement:
                self._try(statement, queue, job, attempt)
                if attempt.found and session.is_ready(job) and attempt.found[-1].outcome == DecisionOutcome.PLACED:
                    return self._conclude(statement, job, attempt)
                if attempt.found and session.is_pipelined(job):
                    later = later or one
                elif attempt.failed_anywhere and later is None:
                    return self._conclude(statement, job, attempt)
                elif later is None and (reason is sets.reason or len(attempt.found) > most):
                    most, why = len(attempt.found), self._why_not_ready(job, attempt)
                    reason = msgspec.structs.replace(
                        reason, message=f"{sets.reason.message}; {one.name}: {why.message}"
                    )
        if later is None:
            self._refuse(tasks, sets.plugin, reason)
            return False
        attempt = _Attempt(tasks, later)
        with Statement(session) as statement:
            self._try(statement, queue, job, attempt)
            return self._conclude(statement, job, attempt)

    def _wanted(self, job: Job) -> list[Task]:
        return [task for task in job.tasks_that(PodStatus.WAITING) if self._wants(task)]

    def _candidates(self, job: Job) -> list[Task]:
        """Pods that may get a place now, in order: first what each role lacks, then what the job is to start with.

        A job that lacks pods may start only with pods that another action would serve; those come last.
        """
        lacking = job.lacking() if job.group is not None else {}
        tasks = job.tasks_that(PodStatus.WAITING)
        if not lacking:
            return self._session.ordered([task for task in tasks if self._wants(task)])
        tasks = sorted(self._session.ordered(tasks), key=lambda task: not self._wants(task))
        if job.group is None or not job.roles:
            return tasks
        first: list[Task] = []
        for task in tasks:
            role = job.group.role(task.pod)
            if lacking.get(role, 0) > 0:
                lacking[role] -= 1
                first.append(task)
        chosen = {task.key for task in first}
        return [*first, *(task for task in tasks if task.key not in chosen)]

    def _try(self, statement: Statement, queue: Queue, job: Job, attempt: _Attempt) -> None:
        """Place pods until the job can start, or cannot any more."""
        session = self._session
        failures = 0
        tasks = attempt.left
        while tasks:
            decision = self._place(statement, queue, tasks[0], attempt.among)
            if decision.node is not None:
                attempt.found.append(decision)
                del tasks[0]
                if session.is_ready(job):
                    return
                continue
            failures += 1
            tasks = attempt.left = self._without_alike(decision, tasks, attempt.failed)
            # Asking takes as long as there are pods left, so it is not done after each of very many failures.
            if failures & (failures - 1) == 0 and not self._can_still_start(job, tasks):
                return

    def _without_alike(self, decision: Decision, tasks: list[Task], failed: list[Decision]) -> list[Task]:
        """The pods that are worth trying after one found no place; those like it would find none either."""
        failed.append(decision)
        if not decision.is_of_class or len(tasks) == 1:
            return tasks[1:]
        session = self._session
        kind = session.class_key(tasks[0])
        left: list[Task] = []
        for task in tasks[1:]:
            if session.class_key(task) == kind:
                failed.append(decision.like(task))
            else:
                left.append(task)
        return left

    def _can_still_start(self, job: Job, tasks: Sequence[Task]) -> bool:
        if job.group is None:
            return True
        with job.supposing(tasks):
            return self._session.is_pipelined(job)

    def _place(self, statement: Statement, queue: Queue, task: Task, among: NodeSet | None) -> Decision:
        session = self._session
        refused = session.why_not_allocatable(queue, task)
        if refused is not None:
            return session.refuse(task, *refused)
        decision = statement.place(task, among)
        if decision.node is not None or not session.cluster.leaving:
            return decision
        # Within an action room only shrinks, so what did not fit once need not be tried again.
        kind = (among.name if among is not None else "", session.class_key(task))
        if kind in self._hopeless:
            return decision
        ahead = statement.pipeline(task, among)
        if ahead.node is not None:
            return ahead
        self._hopeless.add(kind)
        return decision

    # -- what came of it

    def _conclude(self, statement: Statement, job: Job, attempt: _Attempt) -> bool:
        """Keep what was found if the job can start with it, now or later; what is not kept is undone."""
        session = self._session
        is_ready = session.is_ready(job)
        if attempt.found and not is_ready and not session.is_pipelined(job):
            tasks = [*(decision.task for decision in attempt.found), *attempt.left]
            self._refuse(tasks, self._action, self._why_not_ready(job, attempt))
            attempt.found = []
        elif attempt.found:
            statement.commit()
            if not is_ready:
                self._make_wait(attempt.found)
        elif attempt.left:
            self._refuse(attempt.left, self._action, self._why_not_ready(job, attempt))
        for decision in (*attempt.found, *attempt.failed):
            session.decisions[decision.task.key] = decision
        if not attempt.found:
            return False
        self._left[job] = [task for task in attempt.left if self._wants(task)]
        return bool(self._left[job])

    def _make_wait(self, found: Sequence[Decision]) -> None:
        """Some pods of the job have to wait for others to leave, so all of them wait, with their places."""
        leaving = sorted({key for decision in found for key in decision.waits_for})
        for decision in found:
            decision.outcome = DecisionOutcome.WAITING
            decision.waits_for = leaving
            self._session.cluster.promise(decision.task.key)

    def _why_not_ready(self, job: Job, attempt: _Attempt) -> Reason:
        """What the job lacks, before its attempt is undone."""
        lacking = job.lacking()
        if not lacking:
            return Reason("JobNotReady", f"{job.key} cannot start with the pods that have a place")
        pods, untried = len(job.tasks) + len(job.finished), len(attempt.left)
        message = f"{job.key} needs {job.minimum} of {pods} pods placed, {job.promised()} fit"
        message += f" and {untried} were not tried" if untried else ""
        with job.supposing(attempt.left):
            short = sorted(role for role in job.lacking() if role is not None)
        for role in short:
            message += f"; of role {role} it needs {job.roles[role]}, {job.promised(role)} fit"
        if attempt.failed:
            first = attempt.failed[0]
            message += f"; {first.task.key}: {first.why_not()}"
        return Reason("JobNotReady", message)

    def _refuse(self, tasks: Sequence[Task], plugin: str, reason: Reason) -> None:
        for task in tasks:
            self._session.decisions[task.key] = self._session.refuse(task, plugin, reason)
