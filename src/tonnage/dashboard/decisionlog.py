"""DecisionLog: the last thousand decisions that were noticed, each with the record that it opens."""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.dashboard.source import ClusterSource
from tonnage.framework.decision import Decision, DecisionOutcome, DecisionRecord, GrantedDevice
from tonnage.overview.waitingpods import WaitingRow

MOST = 1000


class LoggedDecision(msgspec.Struct, frozen=True, gc=False):
    """A decision as it was noticed."""

    number: int
    when: float
    """The time in the cluster, in seconds since 1970."""
    reason: str
    """The main reason of a pod that waits; empty for one that was placed."""
    record: DecisionRecord


class DecisionLog:
    """Notices which pods have got a node and which wait for another reason than before."""

    def __init__(self) -> None:
        self._kept: deque[LoggedDecision] = deque(maxlen=MOST)
        self._placed: set[str] | None = None
        self._reasons: dict[str, str] = {}
        self._numbers = 0
        self.binds = 0
        """Pods that have got a node since the first look."""

    def __iter__(self) -> Iterator[LoggedDecision]:
        """The newest first."""
        return reversed(self._kept)

    def get(self, number: int) -> LoggedDecision | None:
        """A decision by its number, unless it is too old."""
        return next((one for one in self._kept if one.number == number), None)

    def of_pod(self, pod: str) -> list[LoggedDecision]:
        """The decisions about a pod, the newest first."""
        return [one for one in self if one.record.pod == pod]

    def notice(self, source: ClusterSource, waiting: Iterable[WaitingRow], now: float) -> None:
        """Note what has changed since the last look; at the first one, only what was decided, not what ran before."""
        cluster = source.cluster
        placed = {key for key in (*cluster.running, *cluster.reserved) if key not in cluster.pipelined}
        known = self._placed
        if known is None:
            new = {key for key in placed if key in cluster.reserved or source.placement_of(key) is not None}
        else:
            new = placed - known
            self.binds += len(new)
        self._placed = placed
        changed = [row for row in waiting if self._reasons.get(row.pod) != row.reason and row.reason]
        self._reasons = {row.pod: row.reason for row in waiting}
        for row in changed[-MOST:]:
            task = cluster.waiting.get(row.pod) or cluster.reserved.get(row.pod)
            decision = source.decision_of(task) if task is not None else None
            if decision is not None:
                self._note(now, row.reason, decision.record())
        for key in sorted(new)[-MOST:]:
            decision = source.placement_of(key)
            task = cluster.running.get(key) or cluster.reserved.get(key)
            if decision is not None and decision.outcome == DecisionOutcome.PLACED:
                self._note(now, "", decision.record())
            elif task is not None:
                self._note(now, "", seen_record(cluster, task))

    def _note(self, now: float, reason: str, record: DecisionRecord) -> None:
        self._numbers += 1
        self._kept.append(LoggedDecision(self._numbers, now, reason, record))


def seen_record(cluster: Cluster, task: Task) -> DecisionRecord:
    """The record of a pod that has a node by somebody's decision that is not known here: without scores."""
    node = cluster.holders.get(task.key, "")
    job, state = cluster.groups.job_of(task), cluster.nodes.get(node)
    uses = state.uses(task.key) if state is not None and task.key in state.holdings else ()
    devices = [
        GrantedDevice("", cluster.vendors[use.vendor].name, card.uuid, card.memory, card.cores)
        for use in uses
        for card in use.cards
    ]
    return DecisionRecord(task.key, job.key, job.queue, DecisionOutcome.PLACED, node, devices, {}, [])


def record_of(decision: Decision | None) -> DecisionRecord | None:
    """The record of a decision, if there is one."""
    return None if decision is None else decision.record()
