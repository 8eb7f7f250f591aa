"""Proportion: queues get their share of the cluster, by KAI's rules if a queue of KAI's is given, else by Volcano's.

What queues ask for and hold is counted once per session, when somebody first asks, and kept current by events. Without
queues nothing is counted.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tonnage.cluster.queue import DEFAULT_QUEUE, Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import QueueRecord, QueueShare, Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.kaiqueues import KaiQueues
from tonnage.plugins.queuecounts import Counts
from tonnage.plugins.queuetable import Amounts, QueueTable, QueueTerms, plus
from tonnage.plugins.volcanoqueues import VolcanoQueues

_ALONE = {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)}
"""The queues of a cluster for which none are given."""
_LARGEST_PRIORITY = 2**31
_WEIGHT = 1000
"""Weights are counted in thousandths, because KAI's may be fractions."""

_Sum = tuple[list[int], list[int], list[int]]
"""What the pods of a queue ask for, what they hold, and what those hold that must not be stopped."""


class _Pod(NamedTuple):
    """A pod as queues count it."""

    queue: str
    amounts: Amounts
    fixed: bool


class Proportion(Plugin):
    """Queues take turns by how much of their share they have, and get no more than they may."""

    name = "proportion"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._rules: KaiQueues | VolcanoQueues | None = None
        self._counts: Counts
        self._pods: dict[str, _Pod] = {}
        self._seen = 0
        """How many changes of next jobs were looked at."""
        session.add_queue_order(self.order)
        session.add_overused(self.why_overused)
        session.add_allocatable(self.why_not_allocatable)
        session.add_event_handler(self._allocate, self._deallocate)
        session.set_queue_report(self.report)

    # -- what is asked

    def order(self, one: Queue, other: Queue) -> int:
        """Below 0 if the first is served before the second."""
        rules = self._open_rules()
        if rules is None:
            return 0
        changes = self._session.next_changes
        while self._seen < len(changes):
            rules.forget(rules.table.rows[changes[self._seen]])
            self._seen += 1
        return rules.compare(rules.table.rows[one.name], rules.table.rows[other.name])

    def why_overused(self, queue: Queue) -> Reason | None:
        """Why a queue has had its share."""
        rules = self._open_rules()
        return None if rules is None else rules.why_overused(rules.table.rows[queue.name])

    def why_not_allocatable(self, queue: Queue, task: Task) -> Reason | None:
        """Why a queue must not get what a pod needs."""
        rules = self._open_rules()
        if rules is None:
            return None
        pod = self._pod(task)
        return rules.why_not_allocatable(rules.table.rows[queue.name], pod.amounts, fixed=pod.fixed)

    def report(self) -> list[QueueRecord]:
        """What every queue deserves and holds, in the order of the tree."""
        rules = self._open_rules()
        if rules is None:
            return []
        return [self._record(rules, row) for row in range(len(rules.table.queues))]

    @staticmethod
    def _record(rules: KaiQueues | VolcanoQueues, row: int) -> QueueRecord:
        queue = rules.table.queues[row]
        shares = {}
        for place, dimension in enumerate(rules.table.dimensions):
            deserved, held = round(rules.deserved[row][place]), rules.allocated[row][place]
            amounts = (deserved, round(rules.fair[row][place]), held, max(held - deserved, 0))
            shares[dimension.name] = QueueShare(*map(dimension.show, amounts))
        return QueueRecord(queue.name, queue.parent, shares)

    # -- what is counted

    def _allocate(self, task: Task) -> None:
        self._charge(task, 1)

    def _deallocate(self, task: Task) -> None:
        self._charge(task, -1)

    def _charge(self, task: Task, sign: int) -> None:
        rules = self._rules
        if rules is None:
            return
        pod = self._pod(task)
        row = rules.table.rows.get(pod.queue)
        if row is not None:
            rules.charge(row, [sign * amount for amount in pod.amounts], fixed=pod.fixed)

    def _pod(self, task: Task) -> _Pod:
        known = self._pods.get(task.key)
        if known is None:
            job = self._session.job_of(task)
            queue = self._session.cluster.queues.get(job.queue)
            # Only queues of KAI's say what pods may have that must not be stopped.
            fixed = queue is not None and queue.by_kai and not job.preemptible
            known = self._pods[task.key] = _Pod(job.queue, self._counts.of_task(task), fixed)
        return known

    def _open_rules(self) -> KaiQueues | VolcanoQueues | None:
        session = self._session
        if self._rules is None and session.cluster.queues != _ALONE:
            by_kai = any(queue.by_kai for queue in session.cluster.queues.values())
            self._counts = Counts(session.cluster, by_kai)
            table = self._table(by_kai)
            if by_kai:
                self._rules = KaiQueues(table, self._counts, session.next_jobs)
            else:
                self._rules = VolcanoQueues(table, self._counts)
        return self._rules

    def _table(self, by_kai: bool) -> QueueTable:
        cluster, counts = self._session.cluster, self._counts
        sums: dict[str, _Sum] = {
            name: ([0] * len(counts.dimensions), [0] * len(counts.dimensions), [0] * len(counts.dimensions))
            for name in cluster.queues
        }
        holding = [task for key, task in cluster.running.items() if key not in cluster.leaving]
        self._add(sums, [*holding, *cluster.reserved.values()], holds=True)
        self._add(sums, cluster.waiting.values(), holds=False)
        parents = cluster.groups.hierarchy().parents if by_kai else {}
        return QueueTable(
            counts.dimensions,
            [self._terms(queue, parents.get(name, ""), sums[name]) for name, queue in cluster.queues.items()],
        )

    def _add(self, sums: dict[str, _Sum], tasks: Iterable[Task], *, holds: bool) -> None:
        """Count pods for their queues; those of queues that do not exist are nobody's."""
        for task in tasks:
            pod = self._pod(task)
            if pod.queue not in sums:
                continue
            request, allocated, fixed = sums[pod.queue]
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


def _weight(queue: Queue, resource: str) -> int:
    return max(round(min(queue.weights.get(resource, queue.weight), _LARGEST_PRIORITY) * _WEIGHT), 0)
