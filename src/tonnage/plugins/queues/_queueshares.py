"""The base of plugins that give queues shares: it counts resources and passes questions on to the queue rules.

Requests and holdings of queues are counted once per session, on first use, and kept current by events. Without queues
nothing is counted.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE, Queue
from tonnage.cluster.jobs.surplus import Surplus
from tonnage.cluster.task import Task
from tonnage.framework.decision import QueueFigures, QueueRecord, QueueShare, Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import VictimQueues
from tonnage.framework.session import Session
from tonnage.plugins.queues._inqueue import InqueueResources
from tonnage.plugins.queues._queuerules import Loss, QueueRules
from tonnage.plugins.queues._queuetable import Amounts, QueueTable, QueueTerms, plus
from tonnage.plugins.queues.queuecounts import QueueCounts

_ALONE = {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)}
"""The queues of a cluster that has none."""
_LARGEST_PRIORITY = 2**31
_WEIGHT = 1000
"""Weights are integers in thousandths, because KAI's may be fractions."""

_Sum = tuple[list[int], list[int], list[int]]
"""Requests of a queue's pods, their holdings, and the holdings of non-preemptible ones."""


class PodCount(NamedTuple):
    """A pod as queues count it; `fixed` means non-preemptible."""

    job: Job
    amounts: Amounts
    fixed: bool


class QueueShares(Plugin):
    """Orders queues by their shares, keeps them within their limits, and lets them reclaim what they deserve."""

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._rules: QueueRules | None = None
        self._counts: QueueCounts
        self._inqueue: InqueueResources | None = None
        self._pods: dict[str, PodCount] = {}
        self._requests: dict[str, Amounts] = {}
        """The request of each job that was asked about, until one of its pods is placed or evicted."""
        self._seen = 0
        """The number of queue changes seen so far."""
        session.add_queue_order(self.order)
        session.add_overused(self.why_overused)
        session.add_allocatable(self.why_not_allocatable)
        session.add_reclaimer(self.why_not_reclaimer)
        session.add_reclaimable(self.reclaimable)
        session.add_job_enqueueable(self.may_enqueue)
        session.add_event_handler(self._allocate, self._deallocate)
        session.set_queue_report(self.report, self.figures)
        session.set_victim_queues(self.victim_queues)

    @abstractmethod
    def make_rules(self, by_kai: bool) -> QueueRules:
        """The rules over `table` and `counts`; `by_kai` says whether KAI queues are among them."""

    # -- extension points

    def order(self, one: Queue, other: Queue) -> int:
        """Below 0 if the first is served before the second."""
        rules = self._open_rules()
        if rules is None:
            return 0
        changes = self._session.queue_changes
        if self._seen < len(changes):
            for name in dict.fromkeys(changes[self._seen :]):
                row = rules.table.rows.get(name)
                if row is not None:
                    rules.forget(row)
            self._seen = len(changes)
        return rules.compare(rules.table.rows[one.name], rules.table.rows[other.name])

    def why_overused(self, queue: Queue) -> Reason | None:
        """Why a queue is overused."""
        rules = self._open_rules()
        return None if rules is None else rules.why_overused(rules.table.rows[queue.name])

    def why_not_allocatable(self, queue: Queue, task: Task) -> Reason | None:
        """Why a queue must not get what a pod needs."""
        rules = self._open_rules()
        if rules is None:
            return None
        pod = self._pod(task)
        return rules.why_not_allocatable(rules.table.rows[queue.name], pod.amounts, fixed=pod.fixed)

    def why_not_reclaimer(self, job: Job, tasks: Sequence[Task]) -> Reason | None:
        """Why a job must not reclaim what these pods ask for."""
        rules = self._open_rules()
        row = None if rules is None else rules.table.rows.get(job.queue)
        if rules is None or row is None:
            return None
        return rules.why_not_reclaimer(row, self._sum(tasks), fixed=self._is_fixed(job))

    def reclaimable(self, job: Job, victims: Sequence[Task]) -> list[Task] | None:
        """The victims of other queues that may be evicted for a job."""
        rules = self._open_rules()
        if rules is None:
            return None
        row = rules.table.rows.get(job.queue)
        if row is None:
            return []
        remaining = list(victims)
        while True:
            losses, numbers, cores = self._losses(rules, remaining)
            allowed = rules.reclaimable(row, self._request(job), losses)
            spared = self._spared(remaining, numbers, cores, allowed)
            answer = [
                task
                for task, number in zip(remaining, numbers, strict=True)
                if number is not None and allowed[number] and number not in spared
            ]
            if not spared:
                return answer
            # The other losses were permitted with these gone, so decide again without them.
            remaining = answer

    def _spared(
        self, victims: Sequence[Task], numbers: Sequence[int | None], cores: Mapping[str, int], allowed: Sequence[bool]
    ) -> set[int]:
        """Losses that would stop a gang while it keeps pods that it could spare."""
        spared = set()
        for task, number in zip(victims, numbers, strict=True) if cores else ():
            core = cores.get(self._pod(task).job.key)
            if core is not None and number is not None and allowed[core] and not allowed[number]:
                spared.add(core)
        return spared

    def victim_queues(self) -> VictimQueues:
        """The order in which queues give up pods: the reverse of the order in which they are served."""
        rules = self._open_rules()
        return VictimQueueOrder(None if rules is None else rules.apart(), self._pod)

    def may_enqueue(self, job: Job) -> bool | None:
        """Whether the job's queue could have the job's `minResources`."""
        rules = self._open_rules()
        row = None if rules is None else rules.table.rows.get(job.queue)
        if rules is None or row is None:
            return None
        if self._inqueue is None:
            self._inqueue = InqueueResources(self._session, self._counts)
        inqueue: dict[int, Amounts] = {}
        for queue, amounts in self._inqueue.net().items():
            for above in rules.table.path(rules.table.rows[queue]) if queue in rules.table.rows else ():
                inqueue[above] = plus(inqueue[above], amounts) if above in inqueue else amounts
        return rules.may_enqueue(row, self._inqueue.start_of(job), inqueue)

    def report(self) -> list[QueueRecord]:
        """What every queue deserves and holds, in tree order."""
        rules = self._open_rules()
        if rules is None:
            return []
        return [self._record(rules, row) for row in range(len(rules.table.queues))]

    @staticmethod
    def _record(rules: QueueRules, row: int) -> QueueRecord:
        queue = rules.table.queues[row]
        shares = {}
        for place, dimension in enumerate(rules.table.dimensions):
            deserved, held = round(rules.deserved[row][place]), rules.allocated[row][place]
            amounts = (deserved, round(rules.fair[row][place]), held, max(held - deserved, 0))
            shares[dimension.name] = QueueShare(*map(dimension.show, amounts))
        return QueueRecord(queue.name, queue.parent, shares)

    def figures(self) -> dict[str, dict[str, QueueFigures]]:
        """The same as numbers, by queue and resource."""
        rules = self._open_rules()
        if rules is None:
            return {}
        requested = rules.table.request.T.tolist()
        return {
            queue.name: {
                dimension.name: QueueFigures(*map(dimension.figure, amounts))
                for dimension, *amounts in zip(
                    rules.table.dimensions,
                    rules.deserved[row],
                    rules.fair[row],
                    rules.allocated[row],
                    requested[row],
                    strict=True,
                )
            }
            for row, queue in enumerate(rules.table.queues)
        }

    # -- losses

    def _losses(
        self, rules: QueueRules, victims: Sequence[Task]
    ) -> tuple[list[Loss], list[int | None], dict[str, int]]:
        """The losses, the loss that each victim is part of, if any, and the losses that stop a gang."""
        losses: list[Loss] = []
        numbers: list[int | None] = []
        surplus = Surplus()
        cores: dict[str, int] = {}
        rows, queues = rules.table.rows, self._session.cluster.queues
        for task in victims:
            job, amounts, _ = self._pod(task)
            row = rows.get(job.queue)
            if row is None or not queues[job.queue].reclaimable:
                numbers.append(None)
                continue
            is_core = rules.takes_gangs_whole and job.group is not None and not surplus.take(job, task)
            number = cores.get(job.key) if is_core else None
            if number is None:
                number = len(losses)
                losses.append(Loss(row, amounts))
                if is_core:
                    cores[job.key] = number
            else:
                losses[number] = Loss(row, plus(losses[number].amounts, amounts))
            numbers.append(number)
        return losses, numbers, cores

    def _request(self, job: Job) -> Amounts:
        """The remaining request of a job."""
        known = self._requests.get(job.key)
        if known is None:
            known = self._requests[job.key] = self._sum(job.asking())
        return known

    def _sum(self, tasks: Iterable[Task]) -> Amounts:
        amounts: Amounts = [0] * len(self._counts.dimensions)
        for task in tasks:
            amounts = plus(amounts, self._pod(task).amounts)
        return amounts

    # -- counting

    def _allocate(self, task: Task) -> None:
        self._charge(task, 1)

    def _deallocate(self, task: Task) -> None:
        self._charge(task, -1)

    def _charge(self, task: Task, sign: int) -> None:
        rules = self._rules
        if rules is None:
            return
        pod = self._pod(task)
        self._requests.pop(pod.job.key, None)
        row = rules.table.rows.get(pod.job.queue)
        if row is not None:
            amounts = pod.amounts if sign > 0 else [-amount for amount in pod.amounts]
            rules.charge(row, amounts, fixed=pod.fixed)

    def _pod(self, task: Task) -> PodCount:
        known = self._pods.get(task.key)
        if known is None:
            job = self._session.job_of(task)
            known = self._pods[task.key] = PodCount(job, self._counts.of_task(task), self._is_fixed(job))
        return known

    def _is_fixed(self, job: Job) -> bool:
        """Whether a job is non-preemptible; only KAI queues limit such jobs."""
        queue = self._session.cluster.queues.get(job.queue)
        return queue is not None and queue.by_kai and not job.preemptible

    def _open_rules(self) -> QueueRules | None:
        if self._rules is not None:
            return self._rules
        queues = self._session.cluster.queues
        if queues != _ALONE:
            by_kai = any(queue.by_kai for queue in queues.values())
            self._counts = QueueCounts(self._session.cluster, by_kai)
            self._rules = self.make_rules(by_kai)
        return self._rules

    def table(self, parents: Mapping[str, str]) -> QueueTable:
        """All queues with their requests and holdings, as the given tree."""
        cluster, counts = self._session.cluster, self._counts
        sums: dict[str, _Sum] = {
            name: ([0] * len(counts.dimensions), [0] * len(counts.dimensions), [0] * len(counts.dimensions))
            for name in cluster.queues
        }
        running = [task for key, task in cluster.running.items() if key not in cluster.leaving]
        # What pods of other schedulers hold is charged to nobody, though it is not free.
        holding = [task for task in running if cluster.is_ours(task.pod)]
        self._add(sums, [*holding, *cluster.reserved.values()], holds=True)
        self._add(sums, cluster.waiting.values(), holds=False)
        return QueueTable(
            counts.dimensions,
            [self._terms(queue, parents.get(name, ""), sums[name]) for name, queue in cluster.queues.items()],
        )

    def _add(self, sums: dict[str, _Sum], tasks: Iterable[Task], *, holds: bool) -> None:
        """Add pods to the sums of their queues; pods of unknown queues are skipped."""
        for task in tasks:
            pod = self._pod(task)
            if pod.job.queue not in sums:
                continue
            request, allocated, fixed = sums[pod.job.queue]
            request[:] = plus(request, pod.amounts)
            if holds:
                allocated[:] = plus(allocated, pod.amounts)
                if pod.fixed:
                    fixed[:] = plus(fixed, pod.amounts)

    def _terms(self, queue: Queue, parent: str, sums: _Sum) -> QueueTerms:
        counts = self._counts
        request, allocated, fixed = sums
        return QueueTerms(
            name=queue.name,
            parent=parent,
            priority=max(-_LARGEST_PRIORITY, min(queue.priority, _LARGEST_PRIORITY)),
            created=queue.created,
            deserved=counts.of_shares(queue.deserved, absent=0),
            limit=counts.of_shares(queue.limit, absent=-1),
            weight=[_weight(queue, dimension.name) for dimension in counts.dimensions],
            guarantee=counts.of_shares(queue.guarantee, absent=0),
            request=request,
            allocated=allocated,
            fixed=fixed,
        )


class VictimQueueOrder:
    """Queues in the reverse of their order, each without what it has given up so far."""

    def __init__(self, rules: QueueRules | None, pod_of: Callable[[Task], PodCount]) -> None:
        self._rules = rules
        self._pod_of = pod_of

    def compare(self, one: Queue, other: Queue) -> int:
        """Below 0 if the first gives up a pod before the second."""
        if self._rules is None:
            return 0
        rows = self._rules.table.rows
        return self._rules.compare(rows[other.name], rows[one.name])

    def give_up(self, task: Task) -> None:
        """Count a pod as evicted."""
        if self._rules is None:
            return
        pod = self._pod_of(task)
        row = self._rules.table.rows.get(pod.job.queue)
        if row is not None:
            self._rules.give_up(row, pod.amounts)


def _weight(queue: Queue, resource: str) -> int:
    return max(round(min(queue.weights.get(resource, queue.weight), _LARGEST_PRIORITY) * _WEIGHT), 0)
