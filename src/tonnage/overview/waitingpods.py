"""Waiting pods: each with what it asks for, since when it waits and the main reason, grouped by that reason."""

from collections.abc import Callable, Iterable

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, DecisionOutcome, main_reason
from tonnage.framework.reasons import known_reason
from tonnage.model.timestamp import known_timestamp
from tonnage.overview.podwants import asks

NOT_DECIDED = ""
"""The reason of pods that nothing was decided about yet."""
PROMISED = "Promised"
"""The reason of pods that wait until others have left their place."""
FITS = "Fits"
"""The reason of pods that would be placed now."""
_OWN = {
    FITS: ("There is room for the pod, and it would be placed now.", "the next scheduling cycle"),
    NOT_DECIDED: (
        "Nothing was decided about the pod yet, or decisions about it cannot be seen here.",
        "the next scheduling cycle",
    ),
    PROMISED: ("The pod has a place, which other pods have to leave first.", "other pods leave"),
}

DecisionOf = Callable[[Task], Decision | None]
"""The latest decision about a waiting pod; nothing if there is none."""


class WaitingRow(msgspec.Struct, frozen=True, gc=False):
    """A pod that waits."""

    pod: str
    job: str
    queue: str
    asks: str
    reason: str
    """The main reason; empty if nothing was decided about the pod yet."""
    since: float | None
    """When it was created, in seconds since 1970, if that is known."""
    node: str
    """The node that it was promised; mostly empty."""
    gpus: int
    """How many cards it asks for."""


class WaitingGroup(msgspec.Struct, frozen=True, gc=False):
    """Pods that wait for one reason, the oldest first."""

    reason: str
    means: str
    remedy: str
    """What takes the reason away."""
    pods: tuple[WaitingRow, ...]

    @property
    def gpus(self) -> int:
        """How many cards its pods ask for."""
        return sum([pod.gpus for pod in self.pods])


class WaitingPods:
    """The waiting pods of a cluster; a row is made again only when its pod or the decision about it has changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[Task, Decision | None, WaitingRow]] = {}

    def rows(self, decision_of: DecisionOf) -> list[WaitingRow]:
        """A row for each pod without a place, and for each that waits with one."""
        cluster = self._cluster
        promised = [cluster.reserved[key] for key in cluster.pipelined if key in cluster.reserved]
        known: dict[str, tuple[Task, Decision | None, WaitingRow]] = {}
        for task in (*cluster.waiting.values(), *promised):
            decision = decision_of(task)
            before = self._known.get(task.key)
            if before is None or before[0] is not task or before[1] is not decision:
                before = task, decision, self._row(task, decision)
            known[task.key] = before
        self._known = known
        return [row for _, _, row in known.values()]

    def _row(self, task: Task, decision: Decision | None) -> WaitingRow:
        job = self._cluster.groups.job_of(task)
        return WaitingRow(
            task.key,
            job.key,
            job.queue,
            asks(task),
            _reason(decision),
            known_timestamp(task.created),
            self._cluster.holders.get(task.key, ""),
            sum([request.count for demand in task.demands for request in demand.requests]),
        )


def grouped(rows: Iterable[WaitingRow]) -> list[WaitingGroup]:
    """The rows by reason: the largest group first, then by name."""
    by_reason: dict[str, list[WaitingRow]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(row)
    groups = []
    for reason, pods in by_reason.items():
        pods.sort(key=lambda row: (row.since is None, row.since or 0.0, row.pod))
        known = known_reason(reason)
        groups.append(WaitingGroup(reason, *_OWN.get(reason, (known.means, known.remedy.value)), tuple(pods)))
    return sorted(groups, key=lambda group: (-len(group.pods), group.reason))


def _reason(decision: Decision | None) -> str:
    if decision is None:
        return NOT_DECIDED
    if decision.outcome == DecisionOutcome.PLACED:
        return FITS
    if decision.node is not None:
        return PROMISED if decision.waits_for else "JobNotReady"
    return main_reason(decision)
