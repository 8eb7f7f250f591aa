"""Claims, volumes, classes and capacities in the words of tests."""

from tests.neighbours import ZONE
from tonnage.model.meta import ObjectMeta
from tonnage.model.selection import Expression, LabelSelector, NodeSelector, SelectorTerm
from tonnage.model.storage import (
    SELECTED_NODE,
    ClaimReference,
    ClaimSpec,
    ClaimStatus,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeSpec,
    CSIStorageCapacity,
    DriverLimit,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageRequest,
    TopologyRequirement,
    TopologyTerm,
    VolumeNodeAffinity,
    VolumeSpec,
)

LATE = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def claim(
    name="data",
    volume=None,
    storage_class=None,
    *,
    size="1Gi",
    modes=None,
    phase=None,
    leaving=False,
    told=None,
    uid=None,
    **more,
):
    """A claim; `told` is the node that it was told."""
    spec = ClaimSpec(volume, storage_class, modes, resources=StorageRequest({"storage": size}), **more)
    deleted = "2026-01-01T00:00:00Z" if leaving else None
    notes = {SELECTED_NODE: told} if told else None
    metadata = ObjectMeta(name, "default", uid, annotations=notes, deletionTimestamp=deleted)
    return PersistentVolumeClaim(metadata, spec, ClaimStatus(phase or ("Bound" if volume else "Pending")))


def volume(name="pv", storage_class=None, *, zone=None, where=None, labels=None, size="1Gi", owner=None, **more):
    """A volume, reached from one zone, and labelled."""
    terms = None if zone is None else [SelectorTerm([Expression(ZONE, "In", [zone])])]
    reached = VolumeNodeAffinity(NodeSelector(terms)) if terms else None
    marks = {**(labels or {}), **({ZONE: where} if where is not None else {})}
    owned = ClaimReference(owner, "default") if owner else None
    spec = VolumeSpec({"storage": size}, nodeAffinity=reached, storageClassName=storage_class, claimRef=owned, **more)
    return PersistentVolume(ObjectMeta(name, labels=marks), spec)


def storage_class(name="fast", mode=LATE, provisioner="csi.example.com", *terms):
    return StorageClass(ObjectMeta(name), provisioner, mode, list(terms) or None)


def allowed(**labels):
    return TopologyTerm([TopologyRequirement(ZONE if key == "zone" else key, values) for key, values in labels.items()])


def limit(node, count, driver="csi.example.com"):
    return CSINode(ObjectMeta(node), CSINodeSpec([NodeDriver(driver, DriverLimit(count))]))


def local_class(name="local"):
    """A class without a provisioner: its volumes are there, or not."""
    return storage_class(name, LATE, NO_PROVISIONER)


def driver(name="csi.example.com", reports=True):
    return CSIDriver(ObjectMeta(name), CSIDriverSpec(reports))


def capacity(name, zone, size=None, largest=None, storage_class="fast"):
    """The storage that a class has left in a zone."""
    where = LabelSelector({ZONE: zone}) if zone is not None else None
    return CSIStorageCapacity(ObjectMeta(name, "kube-system"), storage_class, where, size, largest)
