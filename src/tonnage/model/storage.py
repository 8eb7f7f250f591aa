"""Storage as Tonnage reads it: the volumes of pods, claims, persistent volumes, classes, and limits of nodes."""

import msgspec

from tonnage.model.meta import ObjectMeta
from tonnage.model.selection import LabelSelector, NodeSelector

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"
LOST = "Lost"


class ClaimSource(msgspec.Struct, gc=False, frozen=True):
    """The claim that a pod's volume is."""

    claimName: str = ""


class EphemeralSource(msgspec.Struct, gc=False, frozen=True):
    """A claim that is made for the pod; its name follows from those of the pod and the volume."""


class PodVolume(msgspec.Struct, gc=False, frozen=True):
    """A volume of a pod, as far as it decides where the pod may go."""

    name: str = ""
    persistentVolumeClaim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class StorageRequest(msgspec.Struct, gc=False, frozen=True):
    """How much storage a claim asks for."""

    requests: dict[str, str | int | float] | None = None


class ClaimSpec(msgspec.Struct, gc=False, frozen=True):
    """What a claim asks for, and the volume it got."""

    volumeName: str | None = None
    storageClassName: str | None = None
    accessModes: list[str] | None = None
    volumeMode: str | None = None
    selector: LabelSelector | None = None
    resources: StorageRequest = StorageRequest()


class ClaimStatus(msgspec.Struct, gc=False, frozen=True):
    """How far a claim has come."""

    phase: str | None = None


class PersistentVolumeClaim(msgspec.Struct, gc=False, frozen=True):
    """A claim to storage."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def key(self) -> str:
        return self.metadata.key


class ClaimReference(msgspec.Struct, gc=False, frozen=True):
    """The claim that a volume belongs to."""

    name: str = ""
    namespace: str | None = None


class VolumeNodeAffinity(msgspec.Struct, gc=False, frozen=True):
    """The nodes that reach a volume."""

    required: NodeSelector | None = None


class CSISource(msgspec.Struct, gc=False, frozen=True):
    """The driver of a volume, and what the driver calls it."""

    driver: str = ""
    volumeHandle: str = ""


class VolumeSpec(msgspec.Struct, gc=False, frozen=True):
    """What a volume is."""

    capacity: dict[str, str | int | float] | None = None
    accessModes: list[str] | None = None
    volumeMode: str | None = None
    storageClassName: str | None = None
    claimRef: ClaimReference | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None


class PersistentVolume(msgspec.Struct, gc=False, frozen=True):
    """A piece of storage."""

    metadata: ObjectMeta
    spec: VolumeSpec = VolumeSpec()
    status: ClaimStatus = ClaimStatus()


class TopologyRequirement(msgspec.Struct, gc=False, frozen=True):
    """A label of nodes and the values it may have."""

    key: str
    values: list[str] = []


class TopologyTerm(msgspec.Struct, gc=False, frozen=True):
    """Requirements that must all hold."""

    matchLabelExpressions: list[TopologyRequirement] | None = None


class StorageClass(msgspec.Struct, gc=False, frozen=True):
    """How volumes come into being."""

    metadata: ObjectMeta
    provisioner: str = ""
    volumeBindingMode: str | None = None
    allowedTopologies: list[TopologyTerm] | None = None


class DriverLimit(msgspec.Struct, gc=False, frozen=True):
    """How many volumes a node can have of a driver."""

    count: int | None = None


class NodeDriver(msgspec.Struct, gc=False, frozen=True):
    """A driver on a node."""

    name: str
    allocatable: DriverLimit | None = None


class CSINodeSpec(msgspec.Struct, gc=False, frozen=True):
    """The drivers of a node."""

    drivers: list[NodeDriver] = []


class CSINode(msgspec.Struct, gc=False, frozen=True):
    """What a node of the same name can do with volumes."""

    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()


class Namespace(msgspec.Struct, gc=False, frozen=True):
    """A namespace, for its labels."""

    metadata: ObjectMeta


Surrounding = Namespace | PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode
"""Objects beside nodes and pods that say where pods may go."""
