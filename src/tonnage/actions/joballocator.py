"""Job allocator: places the waiting pods of jobs, for the actions `allocate` and `backfill`.

A job below its minimum gets places for all pods that it needs to start in one statement, or for none. A job beyond it
gets one place at a time and is queued again, so that queues and jobs alternate. Pods are tried in order, without a
search for a better combination: the first pod without a place ends the attempt, unless the remaining pods can still be
enough. If plugins give node sets for the job as a whole, the allocator tries one after another until one holds it.
"""

from collections.abc import Callable, Hashable, Sequence

import msgspec

from tonnage.actions.admission import why_held_back
from tonnage.actions.jobqueue import JobQueue
from tonnage.actions.subjoballocator import SubJobAllocator
from tonnage.actions.subjobs import sub_jobs, too_few_pods
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, DecisionOutcome, Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement


class _Attempt:
    """An attempt to place the pods of one job."""

    def __init__(self, tasks: list[Task], among: NodeSet | None = None) -> None:
        self.among = among
        """The nodes to place pods on; all nodes if there is no set."""
        self.left = tasks
        """Pods not tried yet, in their order."""
        self.found: list[Decision] = []
        self.is_ready = False
        """Whether the job can start now, with the places found."""
        self.failed: list[Decision] = []
        self.incomplete: list[Decision] = []
        """Pods of subgroups that found no places whole."""

    @property
    def failed_anywhere(self) -> bool:
        """Whether the pods that found no place would find none on other nodes either."""
        others = [d for d in self.failed if d.is_of_class and d.outcome != DecisionOutcome.WAITING]
        return bool(self.failed) and not others and not self.incomplete


class JobAllocator:
    """Places waiting pods of the kind that an action wants."""

    def __init__(
        self, session: Session, action: str, wants: Callable[[Task], bool], *, skips_overused: bool = True
    ) -> None:
        self._session = session
        self._action = action
        self._wants = wants
        self._skips_overused = skips_overused
        self._hopeless: set[Hashable] = set()
        """Classes of pods that fit nowhere even once all leaving pods have left."""
        self._left: dict[Job, list[Task]] = {}
        """Per job that was queued again, its pods not tried yet."""

    def run(self) -> None:
        """Place pods until no job is left that could get a place."""
        session = self._session
        jobs: list[Job] = []
        for job in session.waiting_jobs(self._wants):
            session.at_work = job
            reason = why_held_back(session, job)
            if reason is None:
                jobs.append(job)
            else:
                self._refuse(self._wanted(job), self._action, reason)
        session.at_work = None
        job_queue = JobQueue(session, jobs, skips_overused=self._skips_overused)
        while (following := job_queue.next()) is not None:
            queue, job = following
            session.at_work = job
            if self._allocate(queue, job):
                job_queue.put_back(job)
            session.at_work = None

    def _allocate(self, queue: Queue, job: Job) -> bool:
        """Place the pods that a job needs to start, or one more; the result is whether it has pods left to try."""
        tasks = self._left.pop(job, None)
        if tasks is None:
            invalid = self._session.jobs.why_invalid(job)
            if invalid is not None:
                self._refuse(self._wanted(job), *invalid)
                return False
            tasks = self._candidates(job)
        if job.maximum is not None and job.with_place() >= job.maximum:
            message = f"{job.key} has places for {job.with_place()} pods, and may have {job.maximum}"
            self._refuse(tasks, self._action, Reason("EnoughPods", message))
            return False
        sets = self._session.jobs.node_sets(job, tasks)
        if sets is not None:
            return self._allocate_within(sets, queue, job, tasks)
        attempt = _Attempt(tasks)
        with Statement(self._session) as statement:
            self._try(statement, queue, job, attempt)
            return self._conclude(statement, job, attempt)

    def _allocate_within(self, sets: NodeSets, queue: Queue, job: Job, tasks: list[Task]) -> bool:
        """The same on the nodes of one set: the first that holds the job now, else the first that will later."""
        session = self._session
        later: NodeSet | None = None
        most, reason = 0, sets.reason
        for one in [one for one in sets if one.has_room]:
            attempt = _Attempt(list(tasks), one)
            with Statement(session) as statement:
                self._try(statement, queue, job, attempt)
                if attempt.is_ready and attempt.found[-1].outcome == DecisionOutcome.PLACED:
                    return self._conclude(statement, job, attempt)
                if attempt.found and session.jobs.is_pipelined(job):
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
        """The pods to try, in order: first the pods that each role lacks, then the others.

        A job below its minimum may need pods that another action places to start at all; those come last.
        """
        lacking = job.lacking() if job.group is not None else {}
        tasks = job.tasks_that(PodStatus.WAITING)
        if not lacking:
            return self._session.jobs.ordered_tasks([task for task in tasks if self._wants(task)])
        if len(tasks) == 1:
            return tasks
        tasks = sorted(self._session.jobs.ordered_tasks(tasks), key=lambda task: not self._wants(task))
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
        """Place pods until the job can start, or no longer can."""
        if job.subgroups is not None:
            self._try_sub_jobs(statement, queue, job, attempt)
            return
        session = self._session
        failures = 0
        tasks = attempt.left
        while tasks:
            decision = self._place(statement, queue, tasks[0], attempt.among)
            if decision.node is not None:
                attempt.found.append(decision)
                del tasks[0]
                attempt.is_ready = session.jobs.is_ready(job)
                if attempt.is_ready:
                    return
                continue
            failures += 1
            tasks = attempt.left = self._without_alike(decision, tasks, attempt.failed)
            # The question costs time per pod left, so it is asked after 1, 2, 4, 8 ... failures only.
            if failures & (failures - 1) == 0 and not self._can_still_start(job, tasks):
                return

    def _try_sub_jobs(self, statement: Statement, queue: Queue, job: Job, attempt: _Attempt) -> None:
        """Place subgroups, each whole, and other pods until the job can start, or no longer can."""
        session = self._session
        allocator = SubJobAllocator(
            session, statement, job, self._action, lambda task, among: self._place(statement, queue, task, among)
        )
        parts = sub_jobs(job, attempt.left)
        left = {task.key: task for part in parts for task in part.tasks}
        for task in attempt.left:
            if task.key not in left:
                attempt.incomplete.append(session.refuse(task, self._action, too_few_pods(job, task)))
        failures = 0
        for part in parts:
            if job.maximum is not None and job.with_place() + len(part.first()) > job.maximum:
                continue
            found = allocator.allocate(part, attempt.among)
            # Nothing of a subgroup starts before what completes it can.
            paths = {job.subgroup_of(decision.task) for decision in found}
            if any(path and job.tree.shortfalls(job.started, path) for path in paths):
                waiting = [task for path in paths for task in job.inside(path, PodStatus.PIPELINED)]
                self._make_wait(found, [session.decisions[t.key] for t in waiting if t.key in session.decisions])
            for decision in found:
                del left[decision.task.key]
            attempt.found += found
            attempt.is_ready = bool(found) and session.jobs.is_ready(job)
            if attempt.is_ready:
                break
            if not found:
                failures += 1
                for task in part.tasks:
                    del left[task.key]
                    attempt.incomplete.append(session.refuse(task, *allocator.why))
                if failures & (failures - 1) == 0 and not self._can_still_start(job, list(left.values())):
                    break
        attempt.left = list(left.values())

    def _without_alike(self, decision: Decision, tasks: list[Task], failed: list[Decision]) -> list[Task]:
        """The pods worth trying after one found no place; pods of its class would find none either."""
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
            return self._session.jobs.is_pipelined(job)

    def _place(self, statement: Statement, queue: Queue, task: Task, among: NodeSet | None) -> Decision:
        session = self._session
        refused = session.queues.why_not_allocatable(queue, task)
        if refused is not None:
            return session.refuse(task, *refused)
        decision = statement.place(task, among)
        if decision.node is not None or not session.cluster.leaving:
            return decision
        # Within an action room only shrinks, so a class that did not fit once need not be tried again.
        kind = (among.name if among is not None else "", session.class_key(task))
        if kind in self._hopeless:
            return decision
        ahead = statement.pipeline(task, among)
        if ahead.node is not None:
            return ahead
        self._hopeless.add(kind)
        return decision

    # -- results

    def _conclude(self, statement: Statement, job: Job, attempt: _Attempt) -> bool:
        """Commit the places found if the job can start with them, now or later; else the statement undoes them."""
        session = self._session
        if attempt.found and not attempt.is_ready and not session.jobs.is_pipelined(job):
            tasks = [*(decision.task for decision in attempt.found), *attempt.left]
            self._refuse(tasks, self._action, self._why_not_ready(job, attempt))
            attempt.found = []
        elif attempt.found:
            statement.commit()
            if not attempt.is_ready:
                self._make_wait(attempt.found)
        elif attempt.left:
            self._refuse(attempt.left, self._action, self._why_not_ready(job, attempt))
        for decision in (*attempt.found, *attempt.failed, *attempt.incomplete):
            session.decisions[decision.task.key] = decision
        if not attempt.found:
            return False
        self._left[job] = [task for task in attempt.left if self._wants(task)]
        return bool(self._left[job])

    def _make_wait(self, found: Sequence[Decision], beside: Sequence[Decision] = ()) -> None:
        """Let all of these pods wait with their places, because some of them, or `beside`, wait for others to leave."""
        leaving = sorted({key for decision in (*found, *beside) for key in decision.waits_for})
        for decision in found:
            decision.outcome = DecisionOutcome.WAITING
            decision.waits_for = leaving
            self._session.cluster.pipeline(decision.task.key)

    def _why_not_ready(self, job: Job, attempt: _Attempt) -> Reason:
        """What the job lacks; to be asked before its attempt is undone."""
        lacking = job.lacking()
        if not lacking:
            return Reason("JobNotReady", f"{job.key} cannot start with the pods that have a place")
        pods, untried = len(job.tasks) + len(job.finished), len(attempt.left)
        message = f"{job.key} needs {job.minimum} of {pods} pods placed, {job.with_place()} fit"
        message += f" and {untried} were not tried" if untried else ""
        with job.supposing(attempt.left):
            short = list(job.lacking())
        for role in sorted(role for role in short if isinstance(role, str)):
            message += f"; of role {role} it needs {job.roles[role]}, {job.with_place(role)} fit"
        message += "".join(f"; subgroup {'/'.join(path)} is not complete" for path in short if isinstance(path, tuple))
        for first in [*attempt.failed, *attempt.incomplete][:1]:
            message += f"; {first.task.key}: {first.why_not()}"
        return Reason("JobNotReady", message)

    def _refuse(self, tasks: Sequence[Task], plugin: str, reason: Reason) -> None:
        for task in tasks:
            self._session.decisions[task.key] = self._session.refuse(task, plugin, reason)
