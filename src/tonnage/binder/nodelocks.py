"""NodeLocks: the lock of a node, which tells its device plugin which pod the kubelet asks about.

A lock is written only if the plugin could take another pod for this one: without a lock it believes the annotations of
any pending pod, also of one that requests no devices. A lock that was written and that the watch has
not shown yet counts as present: its pod may be gone before the plugin could remove the lock. Cambricon's plugin has a
lock of its own, which tells the time only and which every pod with such cards takes, as HAMi and Volcano do.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tonnage.binder.handover import BIND_TIME, NODE_ANNOTATION, PENDING, has_agent
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import INIT, Task
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import NODES, WatchedKind
from tonnage.kube.paths import api_path
from tonnage.kube.resource import Change
from tonnage.model.annotations import BIND_PHASE, LOCK
from tonnage.model.node import Node
from tonnage.model.timestamp import rfc3339

TAKEN, TAKEN_OVER, NOT_TAKEN = "taken", "taken_over", "not_taken"


class NodeLocks:
    """Writes locks, and knows which nodes may have one."""

    def __init__(self, client: Client, cluster: Cluster, now: Callable[[], float]) -> None:
        self._client = client
        self._cluster = cluster
        self._now = now
        """Seconds since 1970."""
        self._unseen: dict[str, str] = {}
        """By node, the lock that was written last, until the watch shows it."""
        self.outcomes: Counter[str] = Counter()
        """Writes of locks, by outcome."""

    def needed(self, task: Task, node: str) -> dict[str, str]:
        """The locks that the pod must have before its Binding is written."""
        time = rfc3339(self._now())
        asked = {request.vendor for demand in task.demands if demand.kind != INIT for request in demand.requests}
        owned = [vendor.lock_annotation for vendor in self._cluster.vendors if vendor.name in asked]
        locks = {annotation: time for annotation in owned if annotation}
        if self._is_confusable(task, node):
            locks[LOCK] = f"{time},{task.namespace},{task.name}"
        return locks

    def _is_confusable(self, task: Task, node: str) -> bool:
        """Whether the node's plugin could take another pod for this one."""
        state = self._cluster.nodes.get(node)
        if state is None or self._is_served(task, state.node):
            return False
        lock = state.node.annotations.get(LOCK, "")
        if node in self._unseen or (lock and not lock.endswith(f",{task.namespace},{task.name}")):
            return True
        others = (self._cluster.running.get(key) for key in state.holdings if key != task.key)
        return any(o is not None and o.pod.status.phase in (None, PENDING) and _is_believed(o) for o in others)

    def _is_served(self, task: Task, node: Node) -> bool:
        """Whether an agent serves all cards of the pod; it needs no lock to know which pod the kubelet asks about."""
        asked = {request.vendor for demand in task.demands for request in demand.requests}
        return bool(asked) and all(has_agent(node, v) for v in self._cluster.vendors if v.name in asked)

    async def take(self, locks: Mapping[str, str], node: str, seconds: float) -> None:
        """Write a node's locks, even if they are another pod's; KubeError if that fails."""
        state, before = self._cluster.nodes.get(node), self._unseen.get(node)
        is_free = state is None or not any(state.node.annotations.get(lock) for lock in locks)
        if LOCK in locks:
            self._unseen[node] = locks[LOCK]
        body = {"metadata": {"annotations": dict(locks)}}
        try:
            await self._client.request(
                "PATCH", api_path("v1", "nodes", node), body=body, type_=MERGE_PATCH, timeout=seconds
            )
        except KubeError as error:
            self.outcomes[NOT_TAKEN] += 1
            if isinstance(error, StatusError) and error.is_definite:
                self._restore(node, before)
            raise
        self.outcomes[TAKEN if is_free else TAKEN_OVER] += 1

    def listen(self, informer: ClusterInformer) -> None:
        """See every change of nodes."""
        informer.add_listener([NODES], self.seen)

    def seen(self, _nodes: WatchedKind, changes: Sequence[Change]) -> None:
        """Take over what the API server shows of nodes."""
        if not self._unseen:
            return
        for change in changes:
            shown = None if change.object is None else change.object.annotations.get(LOCK)
            if change.is_gone or (shown is not None and shown == self._unseen.get(change.key)):
                self._unseen.pop(change.key, None)

    def _restore(self, node: str, before: str | None) -> None:
        if before is None:
            self._unseen.pop(node, None)
        else:
            self._unseen[node] = before


def _is_believed(task: Task) -> bool:
    """Whether a device plugin could take a pending pod for the one that the kubelet asks about."""
    return bool(task.demands) or any(key in task.annotations for key in (BIND_PHASE, BIND_TIME, NODE_ANNOTATION))
