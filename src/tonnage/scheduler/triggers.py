"""Triggers: which changes of the cluster start a cycle, and which pods they retry.

A hook on each kind that the informer watches compares the cluster before and after each change: most of what API
servers tell is that running pods still run and nodes still live.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from tonnage.cluster.closures.refusals import Refusal, is_refusal
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.holding import Holding
from tonnage.cluster.jobs.group import LAST_EVICTION, NEW, STALE_SINCE
from tonnage.cluster.jobs.job import PodStatus, is_promised
from tonnage.cluster.task import Task
from tonnage.devices.base import GIVEN_UP, Vendor
from tonnage.kube.informer import ChangeHook, ClusterInformer
from tonnage.kube.kinds import BATCH_KINDS, NODES, PODS, WatchedKind
from tonnage.kube.resource import Change
from tonnage.model.annotations import LOCK
from tonnage.model.group import KaiQueue, KaiQueueStatus, PodGroup, QueueStatus, VolcanoQueue
from tonnage.model.meta import NOTHING
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.quota import PodDisruptionBudget
from tonnage.model.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from tonnage.scheduler.unschedulable import UnschedulablePods

_OURS = (STALE_SINCE, LAST_EVICTION)
"""Annotations of PodGroups that this scheduler writes."""


class _PodState(NamedTuple):
    """What the cluster knew of a pod before a change."""

    is_known: bool
    """Whether it waited or held something."""
    waiting: Task | None
    running: Task | None
    held: Holding | None
    counts_for: object
    """What it counts for without holding anything."""


class Triggers:
    """Retries unschedulable pods, and calls `wake` for every change that may let a pod be placed."""

    def __init__(self, scheduler_name: str, unschedulable: UnschedulablePods, wake: Callable[[], None]) -> None:
        self._scheduler_name = scheduler_name
        self._unschedulable = unschedulable
        self._wake = wake
        self._bound: set[str] = set()
        """Running pods that got their place here."""
        self._seen: dict[tuple[str, str], Any] = {}
        """What was last heard of objects other than nodes and pods, by path and name."""

    def others(self) -> list[Any]:
        """All objects but nodes and pods, as they were last heard of."""
        return list(self._seen.values())

    def listen(self, informer: ClusterInformer) -> None:
        """See every change that the informer's cluster takes."""
        for kind in BATCH_KINDS:
            informer.add_hook(kind, self._hook(kind))

    def is_ours(self, pod: Pod) -> bool:
        """Whether the pod asks for this scheduler."""
        return pod.scheduler == self._scheduler_name

    def _hook(self, kind: WatchedKind) -> ChangeHook:
        if kind is PODS:
            return ChangeHook(_pod_before, self._pod_after)
        if kind is NODES:
            return ChangeHook(_node_before, self._node_after)
        return ChangeHook(_admission, partial(self._other_after, kind.resource.path))

    def room_came_free(self) -> None:
        """Retry all pods: any of them may find a place now."""
        self._unschedulable.retry_all()
        self._wake()

    # -- groups, queues, quotas, storage

    def _other_after(self, path: str, cluster: Cluster, change: Change, admission: object) -> None:
        name = path, change.key
        if change.is_gone:
            self._seen.pop(name, None)
            self.room_came_free()
            return
        before = self._seen.get(name)
        self._seen[name] = change.object
        if before is None or admission != _admission(cluster, change):
            self.room_came_free()
        elif isinstance(change.object, PodDisruptionBudget) and before.spec == change.object.spec:
            if change.object.allowed(0) and not before.allowed(0):
                # Its pods can be victims now.
                self.room_came_free()
        elif _only_takes(before, change.object):
            # What a claim is told, or a volume is given to, lets nobody else be placed.
            return
        elif _without_status(before) != _without_status(change.object):
            if _concerns_others(cluster, change.key, before, change.object):
                self.room_came_free()
            else:
                self._unschedulable.retry_job(change.key)
                self._wake()

    # -- nodes

    def _node_after(self, cluster: Cluster, change: Change, before: object) -> None:
        # When a node goes, pods whose place was there are decided anew, and the pods that wait are told another number
        # of nodes.
        if change.is_gone or before != what_counts(change.object, cluster.vendors):
            cluster.refusals.clear(change.key)
            self.room_came_free()

    # -- pods

    def _pod_after(self, cluster: Cluster, change: Change, before: _PodState) -> None:
        key = change.key
        if change.is_gone or (change.object.node is None and not self.is_ours(change.object)):
            if before.is_known and key not in cluster.waiting and key not in cluster.holders:
                self._is_gone(key)
        elif key in cluster.waiting:
            self._waits(before.waiting, cluster.waiting[key], cluster, was_held=before.held is not None)
        elif key in cluster.running:
            self._unschedulable.forget(key)
            self._runs(cluster.running[key], before.held, cluster.held(key), is_new=before.running is None)
        elif key not in cluster.reserved and (before.waiting is not None or before.held is not None):
            self._is_gone(key)
        self._note_refusal(cluster, change, before)
        if before.counts_for is not None and before.counts_for != _counts_for(cluster, key):
            self.room_came_free()

    def _note_refusal(self, cluster: Cluster, change: Change, before: _PodState) -> None:
        """Take note if a kubelet has refused a pod that was placed here; any other change of a node ends that."""
        key, pod, held = change.key, change.object, before.held
        was_reserved = held is not None and before.running is None
        if key in cluster.running:
            if was_reserved:
                self._bound.add(key)
        elif was_reserved or key in self._bound:
            self._bound.discard(key)
            is_there = pod is not None and not change.is_gone
            if held is not None and is_there and pod.node == held.node and is_refusal(pod.status.reason):
                cluster.refusals.add(held.node, held.requests, Refusal(key, pod.status.reason))
                return
        now = cluster.held(key)
        if cluster.refusals and held != now:
            nodes = {holding.node for holding in (held, now) if holding is not None}
            cleared = [cluster.refusals.clear(node) for node in nodes]
            if any(cleared):
                self.room_came_free()

    def _waits(self, before: Task | None, now: Task, cluster: Cluster, was_held: bool) -> None:
        gates = now.pod.spec.schedulingGates
        if was_held or (gates and (before is None or not before.pod.spec.schedulingGates)):
            # For a gated pod no room is kept.
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

    def _is_gone(self, key: str) -> None:
        self._unschedulable.forget(key)
        self.room_came_free()


def _node_before(cluster: Cluster, change: Change) -> object:
    state = cluster.nodes.get(change.key)
    return None if state is None or change.is_gone else what_counts(state.node, cluster.vendors)


def _pod_before(cluster: Cluster, change: Change) -> _PodState:
    key = change.key
    is_known = key in cluster.waiting or key in cluster.holders
    return _PodState(
        is_known, cluster.waiting.get(key), cluster.running.get(key), cluster.held(key), _counts_for(cluster, key)
    )


def _counts_for(cluster: Cluster, key: str) -> object:
    """The job of a pod that has succeeded, or the group that another scheduler's pending pod names, and which it is."""
    job = cluster.groups.of_pod.get(key)
    if job is not None and key in job.finished:
        return job.key, PodStatus.SUCCEEDED
    return cluster.groups.unmanaged.get(key)


def _admission(cluster: Cluster, change: Change) -> tuple[bool, bool] | None:
    """Whether a PodGroup is still to be let into the queue, and whether room is kept for it."""
    group = cluster.groups.groups.get(change.key) if isinstance(change.object, PodGroup) else None
    return None if group is None else (group.phase in NEW, is_promised(group, cluster.groups.jobs.get(change.key)))


def _without_status(thing: Any) -> Any:
    """A PodGroup or Queue as its owner wrote it: what else schedulers write about it lets nobody be placed."""
    if isinstance(thing, PodGroup):
        annotations = {
            name: value for name, value in (thing.metadata.annotations or NOTHING).items() if name not in _OURS
        }
        metadata = msgspec.structs.replace(thing.metadata, annotations=annotations)
        return msgspec.structs.replace(thing, metadata=metadata, status=type(thing.status)())
    if isinstance(thing, VolcanoQueue):
        return msgspec.structs.replace(thing, status=QueueStatus(thing.status.state))
    if isinstance(thing, KaiQueue):
        return msgspec.structs.replace(thing, status=KaiQueueStatus())
    return thing


def _only_takes(before: Any, now: Any) -> bool:
    """Whether the only news is that a claim was told its node, a volume its claim, or that there is less storage."""
    if isinstance(now, PersistentVolumeClaim):
        return not before.selected_node and bool(now.selected_node) and before.spec == now.spec
    if isinstance(now, PersistentVolume):
        return before.spec.claimRef is None and now.spec.claimRef is not None
    if isinstance(now, CSIStorageCapacity):
        is_same = before.storageClassName == now.storageClassName and before.nodeTopology == now.nodeTopology
        return bool(is_same and now.largest <= before.largest and now.total <= before.total)
    return False


def _concerns_others(cluster: Cluster, key: str, before: Any, now: Any) -> bool:
    """Whether a change may let other jobs be placed; not so annotations of a PodGroup none of whose pods has a node."""
    if not isinstance(now, PodGroup) or before.spec != now.spec or before.metadata.labels != now.metadata.labels:
        return True
    job = cluster.groups.jobs.get(key)
    return job is not None and any(pod in cluster.holders for pod in job.tasks)


def _asked(pod: Pod) -> object:
    """What decides where a pending pod may go."""
    return pod.metadata, pod.spec


def what_counts(node: Node, vendors: Sequence[Vendor]) -> object:
    """What decides which pods a node takes: no heartbeats, locks or images."""
    handshakes = {vendor.handshake_annotation for vendor in vendors}
    locks = {LOCK, *(vendor.lock_annotation for vendor in vendors)}
    annotations = {
        key: (GIVEN_UP in value if key in handshakes else value)
        for key, value in node.annotations.items()
        if key not in locks
    }
    return annotations, node.labels, node.spec, node.status.allocatable, node.status.capacity
