"""NodeLocks: the lock of a node, which tells its device plugin which pod the kubelet asks about.

A lock is written only if the plugin could take another pod for this one: without a lock it believes the annotations of
any pending pod, also of one that requests no devices. A lock that was written and that the watch has
not shown yet counts as present: its pod may be gone before the plugin could remove the lock.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from tonnage.binder.handover import BIND_PHASE, BIND_TIME, NODE_ANNOTATION, PENDING
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import NODES, WatchedKind
from tonnage.kube.paths import api_path
from tonnage.kube.resource import Change
from tonnage.model.timestamp import rfc3339

LOCK = "hami.io/mutex.lock"
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

    def is_needed(self, task: Task, node: str) -> bool:
        """Whether the node's plugin could take another pod for this one."""
        state = self._cluster.nodes.get(node)
        if state is None:
            return False
        lock = state.node.annotations.get(LOCK, "")
        if node in self._unseen or (lock and not lock.endswith(f",{task.namespace},{task.name}")):
            return True
        others = (self._cluster.running.get(key) for key in state.holdings if key != task.key)
        return any(o is not None and o.pod.status.phase in (None, PENDING) and _is_believed(o) for o in others)

    async def take(self, task: Task, node: str, seconds: float) -> None:
        """Name the pod in the node's lock, even if it names another pod; KubeError if that fails."""
        lock = f"{rfc3339(self._now())},{task.namespace},{task.name}"
        state, before = self._cluster.nodes.get(node), self._unseen.get(node)
        is_free = state is None or not state.node.annotations.get(LOCK)
        self._unseen[node] = lock
        body = {"metadata": {"annotations": {LOCK: lock}}}
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
