"""Persistent volume claims of pods: whether they are usable, and which volume each has or may get."""

from collections.abc import Iterator

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.model.quantity import QuantityError
from tonnage.model.resources import amount
from tonnage.model.storage import (
    LOST,
    ONE_POD,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

_STORAGE = "storage"


class Claims:
    """The known claims and volumes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known = cluster.surroundings

    @property
    def are_given(self) -> bool:
        """Whether any claims are given, so that an unknown one is missing."""
        return bool(self._known.claims)

    def of(self, task: Task) -> Iterator[PersistentVolumeClaim]:
        """The known claims of a pod."""
        for key in task.rules.claims if task.rules is not None else ():
            claim = self._known.claims.get(key)
            if claim is not None:
                yield claim

    def volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that a claim is bound to, if it is known."""
        return self._known.volumes.get(claim.spec.volumeName or "")

    def storage_class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self._known.classes.get(claim.spec.storageClassName or "")

    def driver(self, key: str) -> str:
        """The CSI driver of the volume that a claim has or will get; empty if it has none that counts."""
        claim = self._known.claims.get(key)
        if claim is None:
            return ""
        if claim.spec.volumeName:
            volume = self.volume(claim)
            return volume.spec.csi.driver if volume is not None and volume.spec.csi is not None else ""
        found = self.storage_class(claim)
        return found.provisioner if found is not None else ""

    def refusal(self, task: Task) -> Reason | None:
        """Why the pod cannot run on any node."""
        if not self.are_given or task.rules is None:
            return None
        for key in task.rules.claims:
            claim = self._known.claims.get(key)
            if claim is None:
                return Reason("ClaimNotFound", f"there is no PersistentVolumeClaim {key}")
            reason = self._not_usable(task, claim) or self._not_bound(claim)
            if reason is not None:
                return reason
        return None

    def _not_usable(self, task: Task, claim: PersistentVolumeClaim) -> Reason | None:
        if claim.metadata.deletionTimestamp is not None:
            return Reason("ClaimBeingDeleted", f"the PersistentVolumeClaim {claim.key} is being deleted")
        if claim.status.phase == LOST:
            volume = claim.spec.volumeName
            return Reason("ClaimLost", f"the PersistentVolumeClaim {claim.key} has lost its volume {volume}")
        if ONE_POD in (claim.spec.accessModes or ()):
            for user, node in self._cluster.placed.users.get(claim.key, {}).items():
                if user != task.key:
                    what = f"the PersistentVolumeClaim {claim.key} is {ONE_POD}"
                    return Reason("ClaimInUse", f"{what}, and {user} on {node} uses it")
        return None

    def _not_bound(self, claim: PersistentVolumeClaim) -> Reason | None:
        what, name = f"the PersistentVolumeClaim {claim.key}", claim.spec.volumeName
        if name:
            if self._known.volumes and name not in self._known.volumes:
                return Reason("VolumeNotFound", f"{what} is bound to {name}, and there is no such PersistentVolume")
            return None
        class_name, found = claim.spec.storageClassName, self.storage_class(claim)
        if not class_name:
            return Reason("ClaimNotBound", f"{what} has no volume yet and no class that would make one")
        if found is None:
            if not self._known.classes:
                return None
            return Reason("ClaimNotBound", f"{what} has no volume yet, and there is no StorageClass {class_name}")
        if found.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER:
            return Reason(
                "ClaimNotBound", f"{what} has no volume yet, and its class {class_name} does not wait for pods"
            )
        return None


def storage(amounts: dict[str, str | int | float] | None) -> int:
    """The amount of storage; 0 if it cannot be read."""
    try:
        return amount(_STORAGE, (amounts or {}).get(_STORAGE, 0))
    except QuantityError:
        return 0
