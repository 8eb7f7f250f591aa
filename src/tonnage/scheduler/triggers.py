"""Triggers: which changes of the cluster start a cycle, and which pods they retry.

The kinds of objects that the picture follows are wrapped, so that each change is seen with what was known before it:
most of what API servers tell is that running pods still run and nodes still live.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tonnage.binder.nodelocks import LOCK
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.holding import Holding
from tonnage.cluster.jobs.grouptimes import STALE_SINCE
from tonnage.cluster.task import Task
from tonnage.devices.base import GIVEN_UP, Vendor
from tonnage.kube.informer import NODES, PODS, FollowedKind
from tonnage.model.group import (
    KaiPodGroup,
    KaiQueue,
    KaiQueueStatus,
    QueueStatus,
    VolcanoPodGroup,
    VolcanoQueue,
)
from tonnage.model.meta import NOTHING
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.scheduler.unschedulable import UnschedulablePods

DEFAULT_SCHEDULER = "default-scheduler"


class Triggers:
    """Retries unschedulable pods, and calls `wake` for every change that may let a pod be placed."""

    def __init__(self, scheduler_name: str, unschedulable: UnschedulablePods, wake: Callable[[], None]) -> None:
        self._scheduler_name = scheduler_name
        self._unschedulable = unschedulable
        self._wake = wake
        self._seen: dict[tuple[str, str], Any] = {}
        """What was last heard of objects other than nodes and pods, by path and name."""

    def others(self) -> list[Any]:
        """All objects but nodes and pods, as they were last heard of."""
        return list(self._seen.values())

    def kinds(self, kinds: Sequence[FollowedKind]) -> list[FollowedKind]:
        """The same kinds, listened to."""
        return [self._listened_to(kind) for kind in kinds]

    def is_ours(self, pod: Pod) -> bool:
        """Whether the pod asks for this scheduler."""
        return (pod.spec.schedulerName or DEFAULT_SCHEDULER) == self._scheduler_name

    def _listened_to(self, kind: FollowedKind) -> FollowedKind:
        put: Callable[[FollowedKind, Cluster, Any], None] = self._put_other
        drop: Callable[[FollowedKind, Cluster, str, Any], None] = self._drop_other
        known = kind.known
        if kind.resource.kind == PODS.resource.kind:
            put, drop = self._put_pod, self._drop_pod
            known = _pods_and_strangers
        elif kind.resource.kind == NODES.resource.kind:
            put, drop = self._put_node, self._drop_node
        return msgspec.structs.replace(
            kind,
            put=lambda cluster, thing: put(kind, cluster, thing),
            drop=lambda cluster, key, thing: drop(kind, cluster, key, thing),
            known=known,
        )

    def room_came_free(self) -> None:
        """Retry all pods: any of them may find a place now."""
        self._unschedulable.retry_all()
        self._wake()

    # -- groups, queues, quotas, storage

    def _put_other(self, kind: FollowedKind, cluster: Cluster, thing: Any) -> None:
        kind.put(cluster, thing)
        name = kind.resource.path, kind.resource.key(thing.metadata)
        before = self._seen.get(name)
        self._seen[name] = thing
        if before is None or _without_status(before) != _without_status(thing):
            self.room_came_free()

    def _drop_other(self, kind: FollowedKind, cluster: Cluster, key: str, thing: Any) -> None:
        kind.drop(cluster, key, thing)
        self._seen.pop((kind.resource.path, key), None)
        self.room_came_free()

    # -- nodes

    def _put_node(self, kind: FollowedKind, cluster: Cluster, node: Node) -> None:
        state = cluster.nodes.get(node.name)
        before = None if state is None else what_counts(state.node, cluster.vendors)
        kind.put(cluster, node)
        if before != what_counts(node, cluster.vendors):
            self.room_came_free()

    def _drop_node(self, kind: FollowedKind, cluster: Cluster, key: str, node: Node | None) -> None:
        kind.drop(cluster, key, node)
        # Pods whose place was there are decided anew, and messages of pending pods show another number of nodes.
        self.room_came_free()

    # -- pods

    def _put_pod(self, kind: FollowedKind, cluster: Cluster, pod: Pod) -> None:
        key = pod.key
        if pod.node is None and not self.is_ours(pod):
            # A pending pod of another scheduler holds nothing, whatever a pod of its name may have held before.
            if key in cluster.waiting or key in cluster.holders:
                self._drop_pod(kind, cluster, key, pod)
            cluster.groups.put_stranger(pod)
            return
        cluster.groups.drop_stranger(key)
        waited, ran, held = cluster.waiting.get(key), cluster.running.get(key), cluster.held(key)
        kind.put(cluster, pod)
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
            self._unschedulable.retry_job(cluster.groups.job_of(now).key)
            self._wake()

    def _runs(self, task: Task, before: Holding | None, now: Holding | None, is_new: bool) -> None:
        if before is not None and now is not None and (before.node != now.node if is_new else before != now):
            self.room_came_free()
        elif is_new and self._unschedulable.retry_with_rules(task):
            self._wake()

    def _drop_pod(self, kind: FollowedKind, cluster: Cluster, key: str, pod: Pod | None) -> None:
        known = key in cluster.waiting or key in cluster.holders
        kind.drop(cluster, key, pod)
        cluster.groups.drop_stranger(key)
        if known and key not in cluster.waiting and key not in cluster.holders:
            self._is_gone(key)

    def _is_gone(self, key: str) -> None:
        self._unschedulable.forget(key)
        self.room_came_free()


def _pods_and_strangers(cluster: Cluster) -> set[str]:
    return cluster.pods() | cluster.groups.strangers.keys()


def _without_status(thing: Any) -> Any:
    """A PodGroup or Queue without what schedulers write on it, which does not let any pod be placed."""
    if isinstance(thing, VolcanoPodGroup | KaiPodGroup):
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
    """What decides where a pending pod may go."""
    return pod.metadata, pod.spec


def what_counts(node: Node, vendors: Sequence[Vendor]) -> object:
    """What decides which pods a node takes: no heartbeats, locks or images."""
    handshakes = {vendor.handshake_annotation for vendor in vendors}
    annotations = {
        key: (GIVEN_UP in value if key in handshakes else value)
        for key, value in node.annotations.items()
        if key != LOCK
    }
    return annotations, node.labels, node.spec, node.status.allocatable, node.status.capacity
