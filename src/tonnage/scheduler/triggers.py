"""What of all that happens in a cluster is a reason for a cycle.

The kinds of objects that the picture follows are wrapped, so that each change is seen with what was known before it:
most of what API servers tell is that running pods still run and nodes still live.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from tonnage.binder.nodelocks import LOCK
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import ObjectHandler
from tonnage.cluster.holding import Holding
from tonnage.cluster.jobs.grouptimes import STALE_SINCE
from tonnage.cluster.task import Task
from tonnage.devices.base import GIVEN_UP, Vendor
from tonnage.kube.kinds import NODES, PODS, WatchedKind
from tonnage.model.group import KaiQueue, KaiQueueStatus, PodGroup, QueueStatus, VolcanoQueue
from tonnage.model.meta import NOTHING
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.scheduler.unschedulable import UnschedulablePods

DEFAULT_SCHEDULER = "default-scheduler"


class Triggers:
    """Tells the backlog what changed, and calls `wake` for everything that may let a pod be placed."""

    def __init__(self, scheduler_name: str, unschedulable: UnschedulablePods, wake: Callable[[], None]) -> None:
        self._scheduler_name = scheduler_name
        self._unschedulable = unschedulable
        self._wake = wake
        self._seen: dict[tuple[str, str], Any] = {}
        """What was last heard of objects other than nodes and pods, by path and name."""

    def others(self) -> list[Any]:
        """All objects but nodes and pods, as they were last heard of."""
        return list(self._seen.values())

    def kinds(self, kinds: Sequence[WatchedKind]) -> list[WatchedKind]:
        """The same kinds, listened to."""
        return [self._listened_to(kind) for kind in kinds]

    def is_ours(self, pod: Pod) -> bool:
        """Whether the pod asks for this scheduler."""
        return (pod.spec.schedulerName or DEFAULT_SCHEDULER) == self._scheduler_name

    def _listened_to(self, kind: WatchedKind) -> WatchedKind:
        put: Callable[[WatchedKind, Cluster, Any], None] = self._put_other
        drop: Callable[[WatchedKind, Cluster, str, Any], None] = self._drop_other
        known: Callable[[Cluster], Collection[str]] = kind.handler.known
        if kind.resource.kind == PODS.resource.kind:
            put, drop = self._put_pod, self._drop_pod
            known = _pods_and_strangers
        elif kind.resource.kind == NODES.resource.kind:
            put, drop = self._put_node, self._drop_node
        handler = ObjectHandler(
            put=lambda cluster, thing: put(kind, cluster, thing),
            drop=lambda cluster, key, thing: drop(kind, cluster, key, thing),
            known=known,
        )
        return msgspec.structs.replace(kind, handler=handler)

    def room_came_free(self) -> None:
        """Anybody may find a place now."""
        self._unschedulable.look_again()
        self._wake()

    # -- groups, queues, quotas, storage

    def _put_other(self, kind: WatchedKind, cluster: Cluster, thing: Any) -> None:
        kind.handler.put(cluster, thing)
        name = kind.resource.path, kind.resource.key(thing.metadata)
        before = self._seen.get(name)
        self._seen[name] = thing
        if before is None or _without_status(before) != _without_status(thing):
            self.room_came_free()

    def _drop_other(self, kind: WatchedKind, cluster: Cluster, key: str, thing: Any) -> None:
        kind.handler.drop(cluster, key, thing)
        self._seen.pop((kind.resource.path, key), None)
        self.room_came_free()

    # -- nodes

    def _put_node(self, kind: WatchedKind, cluster: Cluster, node: Node) -> None:
        state = cluster.nodes.get(node.name)
        before = None if state is None else what_counts(state.node, cluster.vendors)
        kind.handler.put(cluster, node)
        if before != what_counts(node, cluster.vendors):
            self.room_came_free()

    def _drop_node(self, kind: WatchedKind, cluster: Cluster, key: str, node: Node | None) -> None:
        kind.handler.drop(cluster, key, node)
        # Pods whose place was there are decided anew, and who waits is told another number of nodes.
        self.room_came_free()

    # -- pods

    def _put_pod(self, kind: WatchedKind, cluster: Cluster, pod: Pod) -> None:
        key = pod.key
        if pod.node is None and not self.is_ours(pod):
            # What others have still to place holds nothing, whatever a pod of the same name may have held before.
            if key in cluster.waiting or key in cluster.holders:
                self._drop_pod(kind, cluster, key, pod)
            cluster.groups.put_stranger(pod)
            return
        cluster.groups.drop_stranger(key)
        waited, ran, held = cluster.waiting.get(key), cluster.running.get(key), cluster.held(key)
        kind.handler.put(cluster, pod)
        if key in cluster.waiting:
            self._waits(waited, cluster.waiting[key], cluster, was_held=held is not None)
        elif key in cluster.running:
            self._unschedulable.forget(key)
            self._runs(cluster.running[key], held, cluster.held(key), is_new=ran is None)
        elif key not in cluster.reserved and (waited is not None or held is not None):
            self._is_gone(key)

    def _waits(self, before: Task | None, now: Task, cluster: Cluster, was_held: bool) -> None:
        if was_held:
            self.room_came_free()
        elif before is None or _asked(before.pod) != _asked(now.pod):
            self._unschedulable.forget(now.key)
            self._unschedulable.look_at_job(cluster.groups.job_of(now).key)
            self._wake()

    def _runs(self, task: Task, before: Holding | None, now: Holding | None, is_new: bool) -> None:
        if before is not None and now is not None and (before.node != now.node if is_new else before != now):
            self.room_came_free()
        elif is_new and self._unschedulable.look_beside(task):
            self._wake()

    def _drop_pod(self, kind: WatchedKind, cluster: Cluster, key: str, pod: Pod | None) -> None:
        known = key in cluster.waiting or key in cluster.holders
        kind.handler.drop(cluster, key, pod)
        cluster.groups.drop_stranger(key)
        if known and key not in cluster.waiting and key not in cluster.holders:
            self._is_gone(key)

    def _is_gone(self, key: str) -> None:
        self._unschedulable.forget(key)
        self.room_came_free()


def _pods_and_strangers(cluster: Cluster) -> set[str]:
    return cluster.pods() | cluster.groups.strangers.keys()


def _without_status(thing: Any) -> Any:
    """A PodGroup or Queue as its owner wrote it: what schedulers write about it lets nobody be placed."""
    if isinstance(thing, PodGroup):
        annotations = {
            name: value for name, value in (thing.metadata.annotations or NOTHING).items() if name != STALE_SINCE
        }
        metadata = msgspec.structs.replace(thing.metadata, annotations=annotations)
        return msgspec.structs.replace(thing, metadata=metadata, status=type(thing.status)())
    if isinstance(thing, VolcanoQueue):
        return msgspec.structs.replace(thing, status=QueueStatus(thing.status.state))
    if isinstance(thing, KaiQueue):
        return msgspec.structs.replace(thing, status=KaiQueueStatus())
    return thing


def _asked(pod: Pod) -> object:
    """What decides where a waiting pod may go."""
    return pod.metadata, pod.spec


def what_counts(node: Node, vendors: Sequence[Vendor]) -> object:
    """What decides which pods a node takes: no signs of life, no locks, no images."""
    handshakes = {vendor.handshake_annotation for vendor in vendors}
    annotations = {
        key: (GIVEN_UP in value if key in handshakes else value)
        for key, value in node.annotations.items()
        if key != LOCK
    }
    return annotations, node.labels, node.spec, node.status.allocatable, node.status.capacity
