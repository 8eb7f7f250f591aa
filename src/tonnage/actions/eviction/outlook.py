"""Outlook: the most room that evictions could make, which tells at once that a preemptor cannot start, and why."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.actions.eviction.victims import VictimBatch, Victims
from tonnage.cluster.columns import FREE, LARGEST, Array
from tonnage.cluster.task import Requests, Task, asked
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.session import Session


class Outlook(NamedTuple):
    """How many places a preemptor needs for pods with the same requests, and how many there could be at most."""

    beyond: int
    """Places beyond those needed; negative if there are too few."""
    requests: Requests
    needed: int
    places: int
    nodes: int
    """Nodes that could hold at least one."""

    def __str__(self) -> str:
        needs = f"needs {self.needed} × {asked(self.requests)}"
        if not self.places:
            return f"{needs}; no node could hold one even if all went that may be stopped"
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{needs}; {nodes} could hold {self.places} of them if all went that may be stopped"


class Prospects:
    """Free amounts and amounts held by victims, per node, summed up once for all preemptors."""

    def __init__(self, session: Session, victims: Victims) -> None:
        self._session, self._victims = session, victims
        self._held: dict[str, dict[int | None, Array]] = {}
        """What victims hold, by queue and by the priority that their jobs must be below."""

    def worst(
        self, tasks: Sequence[Task], queues: Sequence[str], below: int | None, within: NodeSet | None = None
    ) -> Outlook:
        """The requests among these pods with the fewest places, if all victims of these queues were evicted."""
        counts: dict[Requests, int] = {}
        for task in tasks:
            counts[task.requests] = counts.get(task.requests, 0) + 1
        with self._session.looking_ahead():
            free = _free(self._session)
            for queue in queues:
                free = free + self._of_queue(queue, below)
            if within is not None:
                free = free.compress(within.mask, axis=1)
            found = [self._outlook(requests, count, free) for requests, count in counts.items()]
        return min(found)

    def leave(self, batches: Sequence[VictimBatch]) -> None:
        """Stop counting evicted pods as victims: what they hold counts as free now."""
        for batch in batches:
            for below, held in self._held.get(batch.job.queue, {}).items():
                self._add(held, batch, below, -1)

    def _outlook(self, requests: Requests, count: int, free: Array) -> Outlook:
        resources = self._session.cluster.columns.resources
        room = np.full(free.shape[1], count, np.int64)
        for name, amount in requests:
            if amount > 0 and name in resources:
                room = np.minimum(room, np.maximum(free[resources[name]], 0) // amount)
        places = int(room.sum())
        return Outlook(places - count, requests, count, places, int(np.count_nonzero(room)))

    def _of_queue(self, queue: str, below: int | None) -> Array:
        """What the victims of a queue hold, by resource and node."""
        known = self._held.setdefault(queue, {})
        if below not in known:
            columns = self._session.cluster.columns
            known[below] = np.zeros((len(columns.resources), columns.size), np.int64)
            for batch in self._victims.present(queue):
                self._add(known[below], batch, below, 1)
        return known[below]

    def _add(self, held: Array, batch: VictimBatch, below: int | None, sign: int) -> None:
        if below is not None and batch.job.priority >= below:
            return
        cluster = self._session.cluster
        for task in batch.tasks:
            state = cluster.nodes.get(cluster.holders[task.key])
            if state is not None:
                held[:, state.row] += sign * cluster.vector(task.requests)


def lacks_in_all(session: Session, tasks: Sequence[Task]) -> tuple[str, int, int] | None:
    """The first resource of which all nodes together have less free than pods request: name, requested, free."""
    needs: dict[str, int] = {}
    for task in tasks:
        for name, amount in task.requests:
            needs[name] = needs.get(name, 0) + amount
    with session.looking_ahead():
        free = _free(session)
    places = session.cluster.columns.resources
    for name, need in needs.items():
        there = int(np.maximum(free[places[name]], 0).sum()) if name in places else need
        if there < need:
            return name, need, there
    return None


def _free(session: Session) -> Array:
    """What is free of each resource on each node, capped so that sums do not overflow."""
    free: Array = np.minimum(session.cluster.all_nodes().amounts[FREE], LARGEST)
    return free
