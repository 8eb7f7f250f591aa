"""The kinds of objects that informers watch, from the registry in `model/kinds.py`.

PodGroups, Queues, Topologies and HyperNodes come with definitions of Volcano, KAI and the coscheduling plugin. Where
such a definition is not installed there are no such objects.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS, ObjectHandler, pods_of
from tonnage.cluster.jobs.validation import group_faults
from tonnage.kube.partialpod import partial_pod
from tonnage.kube.resource import Resource
from tonnage.model.group import KaiQueue, VolcanoQueue
from tonnage.model.kinds import KINDS, KindRole, ObjectKind, structs_of
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.quota import ResourceQuota

_VITAL = frozenset({KindRole.NODE, KindRole.POD, KindRole.QUOTA})
_CHECKED = frozenset({KindRole.PRIORITY, KindRole.QUEUE, KindRole.POD_GROUP})
"""Roles whose objects may have quantities and durations that cannot be parsed."""


def _no_keys(_: Cluster) -> Iterable[str]:
    return ()


class WatchedKind(msgspec.Struct, frozen=True):
    """One kind of objects that an informer watches, and what the cluster does with them."""

    resource: Resource
    handler: ObjectHandler
    in_doubt: Callable[[Cluster], Iterable[str]] = _no_keys
    """Keys that a list may not show yet, because the cluster does not have them from the watch: reserved pods."""
    is_vital: bool = True
    """Whether the informer is not synced as long as the server forbids listing the kind."""


def _watched(kind: ObjectKind) -> WatchedKind:
    faults = group_faults if kind.role in _CHECKED else None
    partial = partial_pod if kind.role is KindRole.POD else None
    return WatchedKind(
        Resource(kind.name, kind.path, kind.struct, kind.is_namespaced, kind.is_custom, faults, partial),
        HANDLERS[kind.struct],
        in_doubt=(lambda cluster: cluster.reserved) if kind.role is KindRole.POD else _no_keys,
        is_vital=kind.role in _VITAL,
    )


WATCHED: dict[type[Any], WatchedKind] = {kind.struct: _watched(kind) for kind in KINDS}
"""Every kind, by the type of its objects."""
NODES, PODS, QUOTAS = WATCHED[Node], WATCHED[Pod], WATCHED[ResourceQuota]
VOLCANO_QUEUES, KAI_QUEUES = WATCHED[VolcanoQueue], WATCHED[KaiQueue]
QUEUES = tuple(WATCHED[struct] for struct in structs_of(KindRole.QUEUE))
POD_GROUPS = tuple(WATCHED[struct] for struct in structs_of(KindRole.POD_GROUP))
"""In the order in which they count where several schedulers have a PodGroup of one name."""

EXTENDER_KINDS = (NODES, PODS, QUOTAS)
"""What the scheduler extender watches."""
BATCH_KINDS = tuple(WATCHED.values())
"""What the batch scheduler watches, with the pods of every scheduler."""


def batch_kinds(is_ours: Callable[[Pod], bool]) -> tuple[WatchedKind, ...]:
    """What a batch scheduler watches that places only its own pods."""
    own_pods = msgspec.structs.replace(PODS, handler=pods_of(is_ours))
    return tuple(own_pods if kind is PODS else kind for kind in BATCH_KINDS)
