"""Storage objects: volumes of pods, claims, persistent volumes, classes, drivers and capacities; and namespaces."""

import msgspec

from tonnage.model.meta import NOTHING, ObjectMeta
from tonnage.model.number import Int32
from tonnage.model.quantity import LARGEST, QuantityError, whole
from tonnage.model.selection import LabelSelector, NodeSelector

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"
LOST = "Lost"
BOUND = "Bound"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Of a claim: the node for whose pod its volume is to be provisioned."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Of a volume: a controller chose its claim, so that the binding ends when the claim goes."""


class ClaimSource(msgspec.Struct, gc=False, frozen=True):
    """A volume of a pod that is a claim."""

    claimName: str = ""


class EphemeralSource(msgspec.Struct, gc=False, frozen=True):
    """A volume of a pod for which Kubernetes creates a claim, named after the pod and the volume."""


class EmptyDirSource(msgspec.Struct, gc=False, frozen=True):
    """A folder of the node that lives as long as the pod."""

    medium: str = ""
    """`Memory` if it is kept in memory."""


class HostPathSource(msgspec.Struct, gc=False, frozen=True):
    """A folder or file of the node; its path is not read."""


class PodVolume(msgspec.Struct, gc=False, frozen=True):
    """A volume of a pod; only fields are read that restrict its node, or say that data would stay behind there."""

    name: str = ""
    persistentVolumeClaim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    emptyDir: EmptyDirSource | None = None
    hostPath: HostPathSource | None = None

    @property
    def is_local(self) -> bool:
        """Whether data on the node's disks would stay behind if the pod were moved."""
        return self.hostPath is not None or (self.emptyDir is not None and self.emptyDir.medium != "Memory")


class StorageRequest(msgspec.Struct, gc=False, frozen=True):
    """How much storage a claim asks for."""

    requests: dict[str, str | int | float] | None = None


class ClaimSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a claim, with the volume that it is bound to."""

    volumeName: str | None = None
    storageClassName: str | None = None
    accessModes: list[str] | None = None
    volumeMode: str | None = None
    selector: LabelSelector | None = None
    resources: StorageRequest = StorageRequest()


class ClaimStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a claim."""

    phase: str | None = None


class PersistentVolumeClaim(msgspec.Struct, gc=False, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def key(self) -> str:
        return self.metadata.key

    @property
    def selected_node(self) -> str:
        """The node that the claim was told; empty if none."""
        return (self.metadata.annotations or NOTHING).get(SELECTED_NODE, "")

    @property
    def is_bound(self) -> bool:
        """Whether claim and volume know of each other."""
        return bool(self.spec.volumeName) and self.status.phase == BOUND


class ClaimReference(msgspec.Struct, gc=False, frozen=True):
    """A reference to the claim that a volume is bound to."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None

    def names(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it means this claim, and not an earlier one of its name."""
        is_same = self.uid is None or claim.metadata.uid is None or self.uid == claim.metadata.uid
        return is_same and f"{self.namespace or 'default'}/{self.name}" == claim.key


class VolumeNodeAffinity(msgspec.Struct, gc=False, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class CSISource(msgspec.Struct, gc=False, frozen=True):
    """The CSI driver of a volume, and the driver's handle for it."""

    driver: str = ""
    volumeHandle: str = ""


class VolumeSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a volume."""

    capacity: dict[str, str | int | float] | None = None
    accessModes: list[str] | None = None
    volumeMode: str | None = None
    storageClassName: str | None = None
    claimRef: ClaimReference | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None


class PersistentVolume(msgspec.Struct, gc=False, frozen=True):
    """A PersistentVolume."""

    metadata: ObjectMeta
    spec: VolumeSpec = VolumeSpec()
    status: ClaimStatus = ClaimStatus()


class TopologyRequirement(msgspec.Struct, gc=False, frozen=True):
    """A node label and the values it may have."""

    key: str
    values: list[str] = []


class TopologyTerm(msgspec.Struct, gc=False, frozen=True):
    """Requirements that must all hold."""

    matchLabelExpressions: list[TopologyRequirement] | None = None


class StorageClass(msgspec.Struct, gc=False, frozen=True):
    """A StorageClass: how volumes are provisioned."""

    metadata: ObjectMeta
    provisioner: str = ""
    volumeBindingMode: str | None = None
    allowedTopologies: list[TopologyTerm] | None = None


class DriverLimit(msgspec.Struct, gc=False, frozen=True):
    """The number of volumes of a driver that a node can have."""

    count: Int32 | None = None


class NodeDriver(msgspec.Struct, gc=False, frozen=True):
    """A CSI driver on a node."""

    name: str
    allocatable: DriverLimit | None = None


class CSINodeSpec(msgspec.Struct, gc=False, frozen=True):
    """The CSI drivers of a node."""

    drivers: list[NodeDriver] = []


class CSINode(msgspec.Struct, gc=False, frozen=True):
    """A CSINode: the drivers and volume limits of the node of the same name."""

    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a CSI driver."""

    storageCapacity: bool | None = None


class CSIDriver(msgspec.Struct, gc=False, frozen=True):
    """A CSIDriver: whether the driver of that name reports how much storage is left."""

    metadata: ObjectMeta
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(msgspec.Struct, gc=False, frozen=True):
    """A CSIStorageCapacity: how much storage a class has left for some nodes."""

    metadata: ObjectMeta
    storageClassName: str = ""
    nodeTopology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximumVolumeSize: str | int | float | None = None

    @property
    def largest(self) -> int:
        """The largest volume that can be provisioned, in bytes; -1 if that is not known."""
        return _bytes(self.capacity if self.maximumVolumeSize is None else self.maximumVolumeSize, -1)

    @property
    def total(self) -> int:
        """How many bytes all further volumes may have together.

        Kubernetes looks at the largest volume alone, and a driver that says no total has no other bound.
        """
        return max(_bytes(self.capacity, LARGEST), self.largest)


class Namespace(msgspec.Struct, gc=False, frozen=True):
    """A namespace, for its labels."""

    metadata: ObjectMeta


Surrounding = (
    Namespace | PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode | CSIDriver | CSIStorageCapacity
)
"""Objects beside nodes and pods that say where pods may go."""


def _bytes(quantity: str | int | float | None, unknown: int) -> int:
    if quantity is None:
        return unknown
    try:
        return whole(quantity)
    except QuantityError:
        return -1
