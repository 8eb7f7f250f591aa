"""The expansion of owners: the pods that their controllers would make beside those of the input."""

from typing import TYPE_CHECKING

from tonnage.cluster.jobs.index import SYSTEM_CLASSES
from tonnage.manifests.owners.inventory import Inventory
from tonnage.manifests.owners.owner import PodOwner
from tonnage.manifests.written import ManifestError
from tonnage.model.group import PriorityClass, VolcanoPodGroup
from tonnage.model.pod import Pod
from tonnage.model.problem import Problem
from tonnage.model.storage import PersistentVolumeClaim

if TYPE_CHECKING:
    from tonnage.manifests.objects import Manifests

MOST_PODS = 200_000
"""Pods that are made at most, of all owners together; the largest clusters have 150,000."""


def add_missing_pods(manifests: "Manifests", now: float) -> dict[str, int]:
    """Add what controllers would make now; returns the number of pods by kind of owner.

    Too many of them are a ManifestError.
    """
    if not manifests.owners:
        return {}
    priorities = SYSTEM_CLASSES | {
        one.metadata.name: one.value for one in manifests.groups if isinstance(one, PriorityClass)
    }
    inventory = Inventory(
        manifests.pods,
        manifests.owners,
        [one for one in manifests.groups if isinstance(one, VolcanoPodGroup)],
        [one.metadata.key for one in manifests.surroundings if isinstance(one, PersistentVolumeClaim)],
        priorities,
        now,
    )
    made: dict[str, int] = {}
    for owner in manifests.owners:
        if owner.metadata.deletionTimestamp is not None:
            continue
        count = _add(owner, inventory, manifests, MOST_PODS - sum(made.values()))
        if count:
            made[owner.kind] = made.get(owner.kind, 0) + count
            manifests.problems += _unknown_classes(owner, priorities)
    return made


def _add(owner: PodOwner, inventory: Inventory, manifests: "Manifests", most: int) -> int:
    count = 0
    for thing in owner.missing(inventory):
        if isinstance(thing, Pod):
            count += 1
            if count > most:
                name = f"{owner.kind}/{owner.metadata.key}"
                raise ManifestError(f"{name}: over {MOST_PODS} pods would be made; give it fewer replicas")
            manifests.add(f"Pod/{thing.key}", thing)
        else:
            manifests.add(f"PodGroup/{thing.key}", thing)
    return count


def _unknown_classes(owner: PodOwner, priorities: dict[str, int]) -> list[Problem]:
    return [
        Problem(
            f"{owner.kind}/{owner.metadata.key}",
            f"{path}.spec.priorityClassName",
            "",
            "a PriorityClass of the input",
            f"there is no priority class {template.spec.priorityClassName}; the priority of its pods is 0",
        )
        for path, template in owner.templates()
        if template.spec.priority is None and (template.spec.priorityClassName or "") not in ("", *priorities)
    ]
