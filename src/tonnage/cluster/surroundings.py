"""The surroundings of nodes and pods: namespaces and storage objects, which restrict the nodes of pods."""

from typing import TypeVar

from tonnage.model.meta import NOTHING
from tonnage.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Surrounding,
)

T = TypeVar("T")


class Surroundings:
    """Namespaces and storage objects by name."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, str]] = {}
        """The labels of each namespace."""
        self.claims: dict[str, PersistentVolumeClaim] = {}
        """By namespace and name."""
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.limits: dict[str, dict[str, int]] = {}
        """The volume limits of each node by CSI driver, where the driver states one."""
        self.drivers: dict[str, bool] = {}
        """Whether each CSI driver reports how much storage is left."""
        self.capacities: dict[str, CSIStorageCapacity] = {}
        """By namespace and name."""

    def upsert(self, thing: Surrounding) -> bool:
        """Add an object or change it; whether that is news."""
        name = thing.metadata.name
        match thing:
            case Namespace():
                return _put(self.namespaces, name, thing.metadata.labels or NOTHING)
            case PersistentVolumeClaim():
                return _put(self.claims, thing.key, thing)
            case PersistentVolume():
                return _put(self.volumes, name, thing)
            case StorageClass():
                return _put(self.classes, name, thing)
            case CSINode():
                counts = {d.name: d.allocatable.count for d in thing.spec.drivers if d.allocatable is not None}
                limits = {driver: count for driver, count in counts.items() if count is not None}
                return _put(self.limits, name, limits)
            case CSIDriver():
                return _put(self.drivers, name, bool(thing.spec.storageCapacity))
            case CSIStorageCapacity():
                return _put(self.capacities, thing.metadata.key, thing)

    def remove(self, thing: Surrounding) -> None:
        """Forget an object."""
        name = thing.metadata.name
        match thing:
            case Namespace():
                self.namespaces.pop(name, None)
            case PersistentVolumeClaim():
                self.claims.pop(thing.key, None)
            case PersistentVolume():
                self.volumes.pop(name, None)
            case StorageClass():
                self.classes.pop(name, None)
            case CSINode():
                self.limits.pop(name, None)
            case CSIDriver():
                self.drivers.pop(name, None)
            case CSIStorageCapacity():
                self.capacities.pop(thing.metadata.key, None)


def _put(things: dict[str, T], name: str, thing: T) -> bool:
    if things.get(name) == thing:
        return False
    things[name] = thing
    return True
