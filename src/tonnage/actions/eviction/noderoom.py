"""Room on a node if some of its pods were evicted, and the nodes on which evictions help: checks before any trial."""

from collections.abc import Hashable

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import FREE, Array
from tonnage.cluster.task import Requests, Task
from tonnage.framework.decider import Lasting
from tonnage.framework.session import Session


class HelpfulNodes:
    """The nodes on which evictions may make room for a pod, looked up once for all pods of a class."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[Hashable, Lasting] = {}

    def why_none(self, task: Task) -> str:
        """Why no eviction on any node would help the pod; empty if one may."""
        reason = self._session.why_lasting(task)
        if reason is not None:
            return f"{reason.name}: {reason.message}"
        lasting = self._lasting(task)
        return ", ".join(f"{count} {name}" for name, count in lasting.reasons.items()) if lasting.nodes.all() else ""

    def of(self, task: Task) -> Array:
        """The nodes as a mask."""
        return self._session.resolvable(task) & ~self._lasting(task).nodes

    def _lasting(self, task: Task) -> Lasting:
        kind = self._session.class_key(task)
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._session.lasting(task)
        return known


class NodeRoom:
    """A node with the batches of victims that are on it."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self.batches: dict[int, list[Requests]] = {}
        """What the pods of each batch request that are on the node."""
        self._sums: dict[str, int] = {}

    def is_among(self, nodes: Array | None) -> bool:
        """Whether the node is one of these, or all will do."""
        state = self._cluster.nodes.get(self._node)
        return nodes is None or (state is not None and bool(nodes[state.row]))

    def add(self, number: int, task: Task) -> None:
        """Count a pod of a batch as one that could be evicted."""
        self.batches.setdefault(number, []).append(task.requests)
        self._count(task.requests, 1)

    def drop(self, number: int) -> None:
        """Forget a batch that is no longer a candidate."""
        for requests in self.batches.pop(number, ()):
            self._count(requests, -1)

    def _count(self, requests: Requests, sign: int) -> None:
        for name, amount in requests:
            self._sums[name] = self._sums.get(name, 0) + sign * amount

    def could_hold(self, task: Task) -> bool:
        """Whether a pod could fit if all batches were evicted; a no is certain, a yes is not."""
        return self._is_enough(task, self._sums)

    def can_take_back(self, number: int, task: Task) -> bool:
        """Whether a pod could still fit if a batch were restored; a no is certain, a yes is not."""
        restored: dict[str, int] = {}
        for requests in self.batches[number]:
            for name, amount in requests:
                restored[name] = restored.get(name, 0) - amount
        return self._is_enough(task, restored)

    def _is_enough(self, task: Task, more: dict[str, int]) -> bool:
        state = self._cluster.nodes.get(self._node)
        if state is None:
            return False
        columns = self._cluster.columns
        free = columns.amounts[FREE, :, state.row].tolist()
        places = columns.resources
        return all(free[places[name]] + more.get(name, 0) >= need for name, need in task.requests if name in places)
