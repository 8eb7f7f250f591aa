"""Which running pods could be stopped for others, and in which order.

Pods go in batches. A job gives up what it has beyond its minimum pod by pod, and then all the rest at once, because
less than its minimum is of no use to it. A pod that must not be stopped stays, and with it what its job needs to run.
Queues give up batches in the order that the plugins know, taking into account what each has given up so far. In a queue
the least important go first; of jobs that are equally important first what they have to spare, then whole jobs; the job
first that would be served last, and of its pods the one that would be placed last: so of equals the youngest.
"""

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from typing import NamedTuple

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.surplus import Surplus
from tonnage.cluster.task import Task
from tonnage.framework.session import Session


class VictimBatch(NamedTuple):
    """Pods of one job that are stopped together or not at all."""

    job: Job
    tasks: tuple[Task, ...]
    is_rest: bool
    """Whether the job stops with them."""


class Victims:
    """The running jobs of a session that may be stopped, looked up once for all who want room."""

    def __init__(self, session: Session) -> None:
        self._session = session
        cluster = session.cluster
        leaving = cluster.leaving
        tasks = [task for key, task in cluster.running.items() if key not in leaving and key in cluster.holders]
        self._by_queue: dict[str, list[Job]] = {}
        for job in dict.fromkeys([session.job_of(task) for task in tasks]):
            if job.preemptible or any(map(job.may_evict, job.tasks.values())):
                self._by_queue.setdefault(job.queue, []).append(job)
        self._sorted: dict[str, list[VictimBatch]] = {}

    def queues(self) -> list[str]:
        """Queues that have such jobs; pods of queues that do not exist stay."""
        return [name for name in self._by_queue if name in self._session.cluster.queues]

    def of_queue(self, queue: str) -> list[VictimBatch]:
        """The batches of one queue, in order."""
        known = self._sorted.get(queue)
        if known is None:
            known = self._sorted[queue] = self._in_order(self._by_queue.get(queue, ()))
        return known

    def _in_order(self, jobs: Sequence[Job]) -> list[VictimBatch]:
        key = cmp_to_key(self._compare)
        # Most often plugins order by importance and age; what is in their order already is sorted quickly.
        jobs = sorted(sorted(jobs, key=lambda job: (job.created, job.key), reverse=True), key=lambda job: job.priority)
        batches = [batch for job in jobs for batch in _batches(self._session, job)]
        spare = sorted([batch for batch in batches if not batch.is_rest], key=key)
        # When whole jobs have to go, none of them has pods to spare any more.
        for batch in spare:
            batch.job.move(batch.tasks[0].key, PodStatus.LEAVING)
        rest = sorted([batch for batch in batches if batch.is_rest], key=key)
        for batch in spare:
            batch.job.move(batch.tasks[0].key, PodStatus.RUNNING)
        return sorted([*spare, *rest], key=lambda batch: batch.job.priority)

    def _compare(self, one: VictimBatch, other: VictimBatch) -> int:
        """Below 0 if the job of the first goes before that of the second."""
        return 0 if one.job is other.job else self._session.compare_jobs(other.job, one.job)

    def stream(self, names: Sequence[str], below: int | None) -> Iterator[VictimBatch]:
        """The batches of some queues, in order, of jobs below a priority if one is given."""
        queues = self._session.cluster.queues
        left = {name: self.present(name, below) for name in names}
        if len(names) == 1:
            yield from left[names[0]]
            return
        order = self._session.victim_queues()
        # What a queue would give up next counts as given up, so that queues are compared by what they would be left.
        following: dict[str, VictimBatch] = {}

        def compare(one: str, other: str) -> int:
            """Below 0 if the first gives up its batch: by the plugins, then by importance, then the younger one."""
            by_plugins = order.compare(queues[one], queues[other])
            by_importance = following[one].job.priority - following[other].job.priority
            ages = [(queues[name].created, name) for name in (one, other)]
            return by_plugins or by_importance or (ages[0] < ages[1]) - (ages[0] > ages[1])

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
        """The batches of a queue without pods that are leaving already, of jobs below a priority if one is given."""
        leaving = self._session.cluster.leaving
        for batch in self.of_queue(queue):
            if not leaving.isdisjoint([task.key for task in batch.tasks]):
                tasks = tuple([task for task in batch.tasks if task.key not in leaving])
                batch = batch._replace(tasks=tasks)
            if batch.tasks and (below is None or batch.job.priority < below):
                yield batch


def _batches(session: Session, job: Job) -> list[VictimBatch]:
    """What a job would give up, step by step."""
    tasks = job.tasks_that(PodStatus.RUNNING)
    stays = session.must_stay
    if len(tasks) == 1 and job.preemptible and tasks[0].key not in stays:
        return [VictimBatch(job, tuple(tasks), job.started() <= job.minimum)]
    tasks = session.ordered(tasks)
    surplus = Surplus()
    may_go = [task for task in reversed(tasks) if job.may_evict(task) and task.key not in stays]
    spare = [task for task in may_go if surplus.take(job, task)]
    beyond = {task.key for task in spare}
    rest = tuple([task for task in reversed(tasks) if task.key not in beyond])
    batches = [VictimBatch(job, (task,), False) for task in spare]
    return [*batches, VictimBatch(job, rest, True)] if rest and len(may_go) == len(tasks) else batches
