"""The kinds that the batch scheduler follows besides nodes, pods and quotas: who waits for what, and where it may go.

PodGroups, Queues, Topologies and HyperNodes come with definitions of Volcano, KAI and the coscheduling plugin. Where
such a definition is not installed there are no such objects.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.validation import group_faults
from tonnage.cluster.surroundings import Surroundings
from tonnage.kube.informer import KINDS, FollowedKind
from tonnage.kube.resource import Resource
from tonnage.model.group import (
    CoschedulingPodGroup,
    GroupObject,
    KaiPodGroup,
    KaiQueue,
    PriorityClass,
    VolcanoPodGroup,
    VolcanoQueue,
)
from tonnage.model.hypernode import HyperNode
from tonnage.model.meta import ObjectMeta
from tonnage.model.storage import CSINode, Namespace, PersistentVolume, PersistentVolumeClaim, StorageClass
from tonnage.model.topology import Topology
from tonnage.model.wire import Surrounding

_VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"


def _meta(key: str) -> ObjectMeta:
    """As much of an object's metadata as its key says."""
    namespace, _, name = key.rpartition("/")
    return ObjectMeta(name=name, namespace=namespace or None)


def _nobody(_: Cluster) -> Iterable[str]:
    return ()


def _surrounding(
    type_: type[Surrounding],
    path: str,
    known: Callable[[Surroundings], Iterable[str]],
    is_namespaced: bool = False,
) -> FollowedKind:
    """Namespaces and storage."""
    return FollowedKind(
        Resource(type_.__name__, path, type_, is_namespaced),
        put=Cluster.upsert_surrounding,
        drop=lambda cluster, key, _thing: cluster.remove_surrounding(type_(_meta(key))),
        known=lambda cluster: known(cluster.surroundings),
        in_doubt=_nobody,
        is_vital=False,
    )


def _grouping(
    type_: type[Any], kind: str, path: str, is_namespaced: bool = False, is_custom: bool = True
) -> FollowedKind:
    """Groups of pods, queues and priority classes."""

    def named(key: str) -> GroupObject:
        return PriorityClass(_meta(key), 0) if type_ is PriorityClass else type_(_meta(key))

    return FollowedKind(
        Resource(kind, path, type_, is_namespaced, is_custom, group_faults),
        put=lambda cluster, thing: cluster.groups.upsert(thing),
        drop=lambda cluster, key, _thing: cluster.groups.remove(named(key)),
        known=lambda cluster: cluster.groups.given(type_),
        in_doubt=_nobody,
        is_vital=False,
    )


PRIORITY_CLASSES = _grouping(
    PriorityClass, "PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses", is_custom=False
)
NAMESPACES = _surrounding(Namespace, "/api/v1/namespaces", lambda around: around.namespaces)
CLAIMS = _surrounding(PersistentVolumeClaim, "/api/v1/persistentvolumeclaims", lambda around: around.claims, True)
VOLUMES = _surrounding(PersistentVolume, "/api/v1/persistentvolumes", lambda around: around.volumes)
STORAGE_CLASSES = _surrounding(StorageClass, "/apis/storage.k8s.io/v1/storageclasses", lambda around: around.classes)
CSI_NODES = _surrounding(CSINode, "/apis/storage.k8s.io/v1/csinodes", lambda around: around.limits)

VOLCANO_GROUPS = _grouping(VolcanoPodGroup, "PodGroup", f"{_VOLCANO}/podgroups", is_namespaced=True)
VOLCANO_QUEUES = _grouping(VolcanoQueue, "Queue", f"{_VOLCANO}/queues")
KAI_GROUPS = _grouping(KaiPodGroup, "PodGroup", "/apis/scheduling.run.ai/v2alpha2/podgroups", is_namespaced=True)
KAI_QUEUES = _grouping(KaiQueue, "Queue", "/apis/scheduling.run.ai/v2/queues")
COSCHEDULING_GROUPS = _grouping(
    CoschedulingPodGroup, "PodGroup", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups", is_namespaced=True
)
TOPOLOGIES = FollowedKind(
    Resource("Topology", "/apis/kai.scheduler/v1alpha1/topologies", Topology, False, is_custom=True),
    put=Cluster.upsert_topology,
    drop=lambda cluster, key, _topology: cluster.remove_topology(key),
    known=lambda cluster: cluster.topologies,
    in_doubt=_nobody,
    is_vital=False,
)
HYPERNODES = FollowedKind(
    Resource("HyperNode", "/apis/topology.volcano.sh/v1alpha1/hypernodes", HyperNode, False, is_custom=True),
    put=Cluster.upsert_hypernode,
    drop=lambda cluster, key, _hypernode: cluster.remove_hypernode(key),
    known=lambda cluster: cluster.hypernodes,
    in_doubt=_nobody,
    is_vital=False,
)

BATCH_KINDS = (
    *KINDS,
    PRIORITY_CLASSES,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    VOLCANO_QUEUES,
    KAI_QUEUES,
    VOLCANO_GROUPS,
    KAI_GROUPS,
    COSCHEDULING_GROUPS,
    TOPOLOGIES,
    HYPERNODES,
)
"""All that the batch scheduler follows."""
