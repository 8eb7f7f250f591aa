"""The handlers of Kubernetes objects in a cluster: how it takes, forgets and holds the objects of each kind.

Reservations are the only thing in the cluster that does not come from objects. News of a pod never takes a reservation
away from a pod that still exists unbound, and old news of an earlier pod of the same name does not touch it. A handler
that raises leaves a whole cluster state behind, as `recovery` says.
"""

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.index import read_object
from tonnage.cluster.recovery import drop_node, drop_pod, recovering, recovery, take_node, take_pod
from tonnage.model.group import PriorityClass
from tonnage.model.kinds import KINDS, KindRole, ObjectKind
from tonnage.model.pod import Pod
from tonnage.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

MOST_FOREIGN = 1000
"""How many pending pods of other schedulers are kept."""


class ObjectHandler(msgspec.Struct, frozen=True):
    """What the cluster does with the objects of one kind."""

    put: Callable[[Cluster, Any], None]
    """Take an object that is new or has changed."""
    drop: Callable[[Cluster, str, Any], None]
    """Forget an object by its key; with it as it was last, if that is known."""
    known: Callable[[Cluster], Collection[str]]
    """The keys of all objects of the kind; a mapping to what they say wherever the cluster keeps one."""


# -- pods


def _put_pod(cluster: Cluster, pod: Pod) -> None:
    reserved = cluster.reserved.get(pod.key)
    if reserved is not None and _is_another(reserved.pod, pod) and not _is_later(pod, reserved.pod):
        return
    take_pod(cluster, pod)


def _drop_pod(cluster: Cluster, key: str, pod: Pod | None) -> None:
    reserved = cluster.reserved.get(key)
    if reserved is not None and pod is not None and _is_another(reserved.pod, pod):
        return
    drop_pod(cluster, key)


def pods_of(is_ours: Callable[[Pod], bool]) -> ObjectHandler:
    """The handler of pods for a scheduler that places only its own: other schedulers' pending pods are unmanaged."""

    def put(cluster: Cluster, pod: Pod) -> None:
        if pod.node is None and not is_ours(pod):
            # A pod that another scheduler has yet to place holds nothing, whatever a pod of its name held before.
            if pod.key in cluster.waiting or pod.key in cluster.holders:
                _drop_pod(cluster, pod.key, pod)
            with recovery(cluster):
                cluster.groups.put_unmanaged(pod)
            _put_foreign(cluster, pod)
            return
        try:
            _put_pod(cluster, pod)
        finally:
            _drop_unmanaged(cluster, pod.key)

    def drop(cluster: Cluster, key: str, pod: Pod | None) -> None:
        try:
            _drop_pod(cluster, key, pod)
        finally:
            _drop_unmanaged(cluster, key)

    return ObjectHandler(
        put, drop, known=lambda cluster: cluster.pods() | cluster.groups.unmanaged.keys() | cluster.foreign.keys()
    )


def _put_foreign(cluster: Cluster, pod: Pod) -> None:
    """Keep the latest of the pods that other schedulers are to place."""
    if pod.holds_nothing or pod.spec.schedulingGates:
        cluster.foreign.pop(pod.key, None)
        return
    cluster.foreign[pod.key] = pod
    if len(cluster.foreign) > MOST_FOREIGN:
        del cluster.foreign[next(iter(cluster.foreign))]


def _drop_unmanaged(cluster: Cluster, key: str) -> None:
    cluster.foreign.pop(key, None)
    if key in cluster.groups.unmanaged:
        with recovery(cluster):
            cluster.groups.drop_unmanaged(key)


def _is_another(one: Pod, other: Pod) -> bool:
    """Whether two pods of one name are not the same pod."""
    return None not in (one.metadata.uid, other.metadata.uid) and one.metadata.uid != other.metadata.uid


def _is_later(one: Pod, other: Pod) -> bool:
    """Whether a pod is later than the one of its name that has a reservation.

    Of two that were created in one second, the one with the reservation is the later: the watch reports that a pod was
    deleted before it shows the next one of that name.
    """
    return (one.metadata.creationTimestamp or "") > (other.metadata.creationTimestamp or "")


# -- groups, queues and priority classes; namespaces and storage


def _job_object(kind: ObjectKind) -> ObjectHandler:
    def named(key: str) -> Any:
        meta = kind.meta(key)
        return PriorityClass(meta, 0) if kind.struct is PriorityClass else kind.struct(meta)

    def put(cluster: Cluster, thing: Any) -> None:
        said = read_object(thing)
        with recovery(cluster):
            cluster.groups.take(thing, said)

    def drop(cluster: Cluster, key: str, _thing: Any) -> None:
        with recovery(cluster):
            cluster.groups.remove(named(key))

    return ObjectHandler(
        put,
        drop,
        known=lambda cluster: cluster.groups.given(kind.struct),
    )


_SURROUNDINGS: dict[type[Any], Callable[[Cluster], Collection[str]]] = {
    Namespace: lambda cluster: cluster.surroundings.namespaces,
    PersistentVolumeClaim: lambda cluster: cluster.surroundings.claims,
    PersistentVolume: lambda cluster: cluster.surroundings.volumes,
    StorageClass: lambda cluster: cluster.surroundings.classes,
    CSINode: lambda cluster: cluster.surroundings.limits,
    CSIDriver: lambda cluster: cluster.surroundings.drivers,
    CSIStorageCapacity: lambda cluster: cluster.surroundings.capacities,
}


def _surrounding(kind: ObjectKind) -> ObjectHandler:
    return ObjectHandler(
        put=recovering(Cluster.upsert_surrounding),
        drop=recovering(lambda cluster, key, _thing: cluster.remove_surrounding(kind.struct(kind.meta(key)))),
        known=_SURROUNDINGS[kind.struct],
    )


# -- the table

_NODES = ObjectHandler(
    put=take_node,
    drop=lambda cluster, key, _node: drop_node(cluster, key),
    known=lambda cluster: cluster.nodes,
)
_PODS = ObjectHandler(put=_put_pod, drop=_drop_pod, known=Cluster.pods)
_QUOTAS = ObjectHandler(
    put=recovering(lambda cluster, quota: cluster.quotas.upsert(quota)),
    drop=recovering(lambda cluster, key, _quota: cluster.quotas.remove(key)),
    known=lambda cluster: cluster.quotas.keys(),
)
_BUDGETS = ObjectHandler(
    put=recovering(lambda cluster, budget: cluster.budgets.update({budget.key: budget})),
    drop=recovering(lambda cluster, key, _budget: cluster.budgets.pop(key, None)),
    known=lambda cluster: cluster.budgets,
)
_TOPOLOGIES = ObjectHandler(
    put=recovering(Cluster.upsert_topology),
    drop=recovering(lambda cluster, key, _topology: cluster.remove_topology(key)),
    known=lambda cluster: cluster.topologies,
)
_HYPERNODES = ObjectHandler(
    put=recovering(Cluster.upsert_hypernode),
    drop=recovering(lambda cluster, key, _hypernode: cluster.remove_hypernode(key)),
    known=lambda cluster: cluster.hypernodes,
)
_BY_ROLE: dict[KindRole, Callable[[ObjectKind], ObjectHandler]] = {
    KindRole.NODE: lambda _kind: _NODES,
    KindRole.POD: lambda _kind: _PODS,
    KindRole.QUOTA: lambda _kind: _QUOTAS,
    KindRole.BUDGET: lambda _kind: _BUDGETS,
    KindRole.PRIORITY: _job_object,
    KindRole.QUEUE: _job_object,
    KindRole.POD_GROUP: _job_object,
    KindRole.NAMESPACE: _surrounding,
    KindRole.STORAGE: _surrounding,
    KindRole.TOPOLOGY: lambda _kind: _TOPOLOGIES,
    KindRole.HYPERNODE: lambda _kind: _HYPERNODES,
}
HANDLERS: dict[type[Any], ObjectHandler] = {kind.struct: _BY_ROLE[kind.role](kind) for kind in KINDS}
"""The handler of each kind, by the type of its objects."""
