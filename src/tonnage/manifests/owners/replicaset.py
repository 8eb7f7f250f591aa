"""ReplicaSets of apps/v1."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from tonnage.manifests.owners.inventory import Inventory, is_active
from tonnage.manifests.owners.owner import PodTemplate
from tonnage.model.group import Count
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod


class ReplicaSetSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a ReplicaSet."""

    replicas: Count = 1
    template: PodTemplate = PodTemplate()


class ReplicaSet(msgspec.Struct, gc=False, frozen=True):
    """A ReplicaSet."""

    kind: ClassVar[str] = "ReplicaSet"
    metadata: ObjectMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        yield "spec.template", self.spec.template

    def missing(self, inventory: Inventory) -> Iterator[Pod]:
        meta = self.metadata
        owner = meta.controller
        if owner is not None and inventory.has(owner.kind, f"{meta.namespace or 'default'}/{owner.name}"):
            # The Deployment says how many pods there are over all its ReplicaSets.
            return
        present = sum(map(is_active, inventory.pods_of("ReplicaSet", meta.key)))
        reference = OwnerReference(meta.name, controller=True, kind="ReplicaSet")
        spec = inventory.admitted(self.spec.template.spec)
        for _ in range(self.spec.replicas - present):
            name = inventory.free_name(meta.namespace, meta.name)
            yield inventory.pod(name, reference, meta.namespace, self.spec.template, spec, {})
