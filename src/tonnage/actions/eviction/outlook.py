"""Outlook: the most room that evictions could make, which tells at once that a preemptor cannot start, and why."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.actions.eviction.victims import VictimBatch, Victims
from tonnage.cluster.columns import FREE, LARGEST, Array
from tonnage.cluster.task import Requests, Task, asked
from tonnage.framework.decision import Decision
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
        counts = Counter([task.requests for task in tasks])
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


class Needs:
    """The places that all pods of a preemptor need, and those that the nodes of its victims have at most without them.

    It begins with the victims gone and all pods placed.
    """

    def __init__(self, session: Session, placed: Sequence[Decision], victims: Sequence[VictimBatch]) -> None:
        cluster = self._cluster = session.cluster
        amounts, resources = cluster.columns.amounts, cluster.columns.resources
        nodes = {cluster.holders[task.key] for batch in victims for task in batch.tasks}
        nodes.update([decision.node for decision in placed if decision.node is not None])
        self._free = {node: amounts[FREE, :, cluster.nodes[node].row].tolist() for node in nodes}
        for decision in placed:
            if decision.node is not None:
                self._add(self._free[decision.node], decision.task, 1)
        self._kinds = [
            (count, [(resources[name], amount) for name, amount in requests if amount > 0 and name in resources])
            for requests, count in Counter([decision.task.requests for decision in placed]).items()
        ]
        """For pods with the same requests, how many there are and what each needs."""
        self._beyond = [
            sum(_room(free, needs, count) for free in self._free.values()) - count for count, needs in self._kinds
        ]
        """For each of them how many places there are beyond those needed."""

    def could_do_without(self, batch: VictimBatch) -> bool:
        """Whether there may be enough places if a batch stayed; a no is certain, a yes is not."""
        return all(left >= 0 for left in self._left(self._with(batch)))

    def restore(self, batch: VictimBatch) -> None:
        """Count a batch as one that stays."""
        free = self._with(batch)
        self._beyond = self._left(free)
        self._free.update(free)

    def _left(self, changed: dict[str, list[int]]) -> list[int]:
        return [
            beyond - sum(_room(self._free[node], *kind) - _room(free, *kind) for node, free in changed.items())
            for beyond, kind in zip(self._beyond, [(needs, count) for count, needs in self._kinds], strict=True)
        ]

    def _with(self, batch: VictimBatch) -> dict[str, list[int]]:
        """What is free on the nodes of a batch if it stays."""
        changed: dict[str, list[int]] = {}
        for task in batch.tasks:
            node = self._cluster.holders[task.key]
            if node not in changed:
                changed[node] = list(self._free[node])
            self._add(changed[node], task, -1)
        return changed

    def _add(self, free: list[int], task: Task, sign: int) -> None:
        resources = self._cluster.columns.resources
        for name, amount in task.requests:
            if name in resources:
                free[resources[name]] += sign * amount


def _room(free: Sequence[int], needs: Sequence[tuple[int, int]], most: int) -> int:
    """How many pods with these needs a node can hold, up to a number."""
    for place, amount in needs:
        most = min(most, max(free[place], 0) // amount)
    return most


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
