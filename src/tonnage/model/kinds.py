"""The registry of Kubernetes kinds that Tonnage reads.

Reading and watching one more kind takes one entry here. What the cluster does with its objects follows from the role,
in `cluster/handlers.py`.
"""

from enum import Enum, auto
from typing import Any

import msgspec

from tonnage.model.group import (
    CoschedulingPodGroup,
    KaiPodGroup,
    KaiQueue,
    PriorityClass,
    VolcanoPodGroup,
    VolcanoQueue,
)
from tonnage.model.hypernode import HyperNode
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.quota import PodDisruptionBudget, ResourceQuota
from tonnage.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tonnage.model.topology import Topology


class KindRole(Enum):
    """What objects of a kind say to a scheduler."""

    NODE = auto()
    POD = auto()
    QUOTA = auto()
    BUDGET = auto()
    PRIORITY = auto()
    QUEUE = auto()
    POD_GROUP = auto()
    NAMESPACE = auto()
    STORAGE = auto()
    TOPOLOGY = auto()
    HYPERNODE = auto()


class ObjectKind(msgspec.Struct, frozen=True):
    """One kind of Kubernetes objects."""

    api_version: str
    name: str
    plural: str
    struct: type[Any]
    role: KindRole
    is_namespaced: bool = False
    is_custom: bool = False
    """Whether it comes with a CustomResourceDefinition, which need not be installed."""

    @property
    def path(self) -> str:
        """The API server's path to all objects of the kind, of every namespace."""
        root = "/apis" if "/" in self.api_version else "/api"
        return f"{root}/{self.api_version}/{self.plural}"

    def key(self, meta: ObjectMeta) -> str:
        """The name of an object among all of its kind, with its namespace if it has one."""
        return meta.key if self.is_namespaced else meta.name

    def meta(self, key: str) -> ObjectMeta:
        """As much of an object's metadata as its key tells."""
        namespace, _, name = key.rpartition("/")
        return ObjectMeta(name=name, namespace=namespace or None)


def _namespaced(api_version: str, name: str, plural: str, struct: type[Any], role: KindRole) -> ObjectKind:
    return ObjectKind(api_version, name, plural, struct, role, is_namespaced=True)


def _custom(
    api_version: str, name: str, plural: str, struct: type[Any], role: KindRole, is_namespaced: bool = False
) -> ObjectKind:
    return ObjectKind(api_version, name, plural, struct, role, is_namespaced, is_custom=True)


KINDS: tuple[ObjectKind, ...] = (
    ObjectKind("v1", "Node", "nodes", Node, KindRole.NODE),
    _namespaced("v1", "Pod", "pods", Pod, KindRole.POD),
    _namespaced("v1", "ResourceQuota", "resourcequotas", ResourceQuota, KindRole.QUOTA),
    _namespaced("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", PodDisruptionBudget, KindRole.BUDGET),
    ObjectKind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", PriorityClass, KindRole.PRIORITY),
    ObjectKind("v1", "Namespace", "namespaces", Namespace, KindRole.NAMESPACE),
    _namespaced("v1", "PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaim, KindRole.STORAGE),
    ObjectKind("v1", "PersistentVolume", "persistentvolumes", PersistentVolume, KindRole.STORAGE),
    ObjectKind("storage.k8s.io/v1", "StorageClass", "storageclasses", StorageClass, KindRole.STORAGE),
    ObjectKind("storage.k8s.io/v1", "CSINode", "csinodes", CSINode, KindRole.STORAGE),
    ObjectKind("storage.k8s.io/v1", "CSIDriver", "csidrivers", CSIDriver, KindRole.STORAGE),
    _namespaced(
        "storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", CSIStorageCapacity, KindRole.STORAGE
    ),
    _custom("scheduling.volcano.sh/v1beta1", "Queue", "queues", VolcanoQueue, KindRole.QUEUE),
    _custom("scheduling.run.ai/v2", "Queue", "queues", KaiQueue, KindRole.QUEUE),
    _custom("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", VolcanoPodGroup, KindRole.POD_GROUP, True),
    _custom("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups", KaiPodGroup, KindRole.POD_GROUP, True),
    _custom("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", CoschedulingPodGroup, KindRole.POD_GROUP, True),
    _custom("kai.scheduler/v1alpha1", "Topology", "topologies", Topology, KindRole.TOPOLOGY),
    _custom("topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes", HyperNode, KindRole.HYPERNODE),
)
"""Where two schedulers' PodGroups or Queues have one name, the kind that stands first counts."""

BY_HEADER = {(kind.api_version, kind.name): kind for kind in KINDS}
"""Kinds by the apiVersion and kind that an object says."""
BY_STRUCT = {kind.struct: kind for kind in KINDS}
NAMESPACED = frozenset(kind.name for kind in KINDS if kind.is_namespaced)
"""Names of kinds whose objects belong to a namespace."""


def structs_of(*roles: KindRole) -> tuple[type[Any], ...]:
    """The types of the objects that have one of these roles, role by role and in the registry's order."""
    return tuple(kind.struct for role in roles for kind in KINDS if kind.role is role)
