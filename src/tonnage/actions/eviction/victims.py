"""Candidate victims in batches and in order: running pods that could be evicted, promises that could be taken back.

A job gives up its surplus beyond the minimum pod by pod, and then all the rest at once, because it cannot run with
fewer pods than its minimum. A pod that must not be evicted stays, and with it the pods that its job needs to run.
Queues give up batches in the order that the plugins give, which takes into account what each has given up so far.
Within a queue the lowest priority goes first. Of jobs of one priority promises go first, which stops nobody, then the
surplus, then whole jobs; of each the last job in the order of jobs goes first, and of its pods the last in the order of
tasks: so of equals the youngest.
"""

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from typing import NamedTuple

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.surplus import Surplus
from tonnage.cluster.task import Task
from tonnage.framework.session import Session


class VictimBatch(NamedTuple):
    """Pods of one job that are evicted together or not at all."""

    job: Job
    tasks: tuple[Task, ...]
    is_rest: bool
    """Whether the job stops with them."""


class Victims:
    """The preemptible running jobs of a session, looked up once for all preemptors."""

    def __init__(self, session: Session) -> None:
        self._session = session
        cluster = session.cluster
        leaving = cluster.leaving
        tasks = [
            task
            for key, task in cluster.running.items()
            if key not in leaving and key in cluster.holders and session.may_stop(task)
        ]
        promises = session.promises()
        self._promised = frozenset([task.key for task in promises])
        """Pods that wait with a place which an action before this one has promised to them."""
        tasks += promises
        self._by_queue: dict[str, list[Job]] = {}
        preemptor = session.at_work
        for job in dict.fromkeys([session.job_of(task) for task in tasks]):
            session.at_work = job
            if job.key in session.set_aside:
                continue
            if job.preemptible or any(map(job.may_evict, job.tasks.values())):
                self._by_queue.setdefault(job.queue, []).append(job)
        session.at_work = preemptor
        self._sorted: dict[str, list[VictimBatch]] = {}

    def queues(self) -> list[str]:
        """Queues with candidates; pods of queues that do not exist stay."""
        return [name for name in self._by_queue if name in self._session.cluster.queues]

    def of_queue(self, queue: str) -> list[VictimBatch]:
        """The batches of one queue, in order."""
        known = self._sorted.get(queue)
        if known is None:
            known = self._sorted[queue] = self._in_order(self._by_queue.get(queue, ()))
        return known

    def _in_order(self, jobs: Sequence[Job]) -> list[VictimBatch]:
        key = cmp_to_key(self._compare)
        # Plugins mostly order by priority and age, and a list that is nearly in order sorts quickly.
        jobs = sorted(sorted(jobs, key=lambda job: (job.created, job.key), reverse=True), key=lambda job: job.priority)
        batches = [batch for job in jobs for batch in _batches(self._session, job, self._promised)]
        promises: list[VictimBatch] = []
        if self._promised:
            promises = sorted([batch for batch in batches if self._is_promised(batch)], key=key)
            batches = [batch for batch in batches if not self._is_promised(batch)]
        spare = sorted([batch for batch in batches if not batch.is_rest], key=key)
        # By the time whole jobs are evicted, none of them has a surplus any more.
        for batch in spare:
            batch.job.move(batch.tasks[0].key, PodStatus.LEAVING)
        rest = sorted([batch for batch in batches if batch.is_rest], key=key)
        for batch in spare:
            batch.job.move(batch.tasks[0].key, PodStatus.RUNNING)
        return sorted([*promises, *spare, *rest], key=lambda batch: batch.job.priority)

    def _is_promised(self, batch: VictimBatch) -> bool:
        return all(task.key in self._promised for task in batch.tasks)

    def _compare(self, one: VictimBatch, other: VictimBatch) -> int:
        """Below 0 if the first batch is evicted before the second."""
        return 0 if one.job is other.job else self._session.jobs.compare(other.job, one.job)

    def stream(
        self, names: Sequence[str], below: int | None, spared: frozenset[str] = frozenset()
    ) -> Iterator[VictimBatch]:
        """The batches of some queues, in order, without spared lineages; with `below` only below that priority."""
        queues = self._session.cluster.queues
        left = {name: self.present(name, below) for name in names}
        if spared:
            left = {name: _without(batches, spared) for name, batches in left.items()}
        if len(names) == 1:
            yield from left[names[0]]
            return
        order = self._session.queues.victim_order()
        # The next batch of a queue counts as given up, so that queues are compared by what they would have left.
        following: dict[str, VictimBatch] = {}

        def compare(one: str, other: str) -> int:
            """Below 0 if the first queue gives up its batch: by the plugins, then lower priority, then the younger."""
            by_plugins = order.compare(queues[one], queues[other])
            by_priority = following[one].job.priority - following[other].job.priority
            ages = [(queues[name].created, name) for name in (one, other)]
            return by_plugins or by_priority or (ages[0] < ages[1]) - (ages[0] > ages[1])

        taken: str | None = None
        while True:
            for name in names if taken is None else (taken,):
                batch = next(left[name], None)
                if batch is not None:
                    following[name] = batch
                    for task in batch.tasks:
                        order.give_up(task)
            if not following:
                return
            taken = min(following, key=cmp_to_key(compare))
            yield following.pop(taken)

    def present(self, queue: str, below: int | None = None) -> Iterator[VictimBatch]:
        """The batches of a queue without pods that leave already; with `below` only of jobs below that priority."""
        leaving, holders = self._session.cluster.leaving, self._session.cluster.holders
        for batch in self.of_queue(queue):
            if not leaving.isdisjoint([task.key for task in batch.tasks]):
                tasks = tuple([task for task in batch.tasks if task.key not in leaving])
                batch = batch._replace(tasks=tasks)
            if self._promised and any(task.key not in holders for task in batch.tasks):
                # A promise that was taken back for another job is none any more.
                batch = batch._replace(tasks=tuple([task for task in batch.tasks if task.key in holders]))
            if batch.tasks and (below is None or batch.job.priority < below):
                yield batch


def _without(batches: Iterator[VictimBatch], spared: frozenset[str]) -> Iterator[VictimBatch]:
    return (batch for batch in batches if batch.job.lineage not in spared)


def _batches(session: Session, job: Job, promised: frozenset[str]) -> list[VictimBatch]:
    """What a job gives up, step by step."""
    tasks = job.tasks_that(PodStatus.RUNNING)
    if promised:
        tasks += [task for task in job.tasks_that(PodStatus.PIPELINED) if task.key in promised]
    if len(tasks) == 1 and job.preemptible and session.may_stop(tasks[0]):
        return [VictimBatch(job, tuple(tasks), job.started() <= job.minimum)]
    tasks = session.jobs.ordered_tasks(tasks)
    surplus = Surplus()
    evictable = [task for task in reversed(tasks) if job.may_evict(task) and session.may_stop(task)]
    spare = [task for task in evictable if surplus.take(job, task)]
    beyond = {task.key for task in spare}
    rest = tuple([task for task in reversed(tasks) if task.key not in beyond])
    batches = [VictimBatch(job, (task,), False) for task in spare]
    return [*batches, VictimBatch(job, rest, True)] if rest and len(evictable) == len(tasks) else batches
