"""Pod rows: every pod with its state, its place and what it asks for; waiting pods with their reason."""

from collections.abc import Iterable

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.model.timestamp import known_timestamp
from tonnage.overview.podwants import asks
from tonnage.overview.waitingpods import WaitingRow

WAITING, STARTING, RUNNING, LEAVING = "waiting", "starting", "running", "leaving"
STATES = (WAITING, STARTING, LEAVING, RUNNING)
"""In the order in which they deserve to be looked at."""


class PodRow(msgspec.Struct, frozen=True, gc=False):
    """A pod."""

    pod: str
    state: str
    node: str
    """Its node, or the one that it was promised; empty if it has none."""
    queue: str
    asks: str
    gpus: int
    """How many cards it asks for."""
    since: float | None
    """When it was created, in seconds since 1970, if that is known."""
    reason: str = ""
    """Why it waits: the main reason."""


class PodRows:
    """The pods of a cluster; a row is made again only when its pod has changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[Task, str, PodRow]] = {}

    def rows(self, waiting: Iterable[WaitingRow]) -> list[PodRow]:
        """A row for each pod: those that wait, as they are given, then those with a place."""
        found = [
            PodRow(row.pod, WAITING, row.node, row.queue, row.asks, row.gpus, row.since, row.reason) for row in waiting
        ]
        known: dict[str, tuple[Task, str, PodRow]] = {}
        for key, task in self._cluster.running.items():
            state, before = self._state(task), self._known.get(key)
            if before is None or before[0] is not task or before[1] != state:
                before = task, state, self._row(task, state)
            known[key] = before
        self._known = known
        return [*found, *[row for _, _, row in known.values()]]

    def _state(self, task: Task) -> str:
        if task.pod.is_leaving or task.key in self._cluster.leaving:
            return LEAVING
        return STARTING if task.pod.status.phase == "Pending" else RUNNING

    def _row(self, task: Task, state: str) -> PodRow:
        return PodRow(
            task.key,
            state,
            self._cluster.holders.get(task.key, ""),
            self._cluster.groups.queue_of(task),
            asks(task),
            sum([request.count for demand in task.demands for request in demand.requests]),
            known_timestamp(task.created),
        )
