"""StatefulSets of apps/v1, whose pods are numbered."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from tonnage.manifests.owners.inventory import Inventory
from tonnage.manifests.owners.owner import PodTemplate
from tonnage.model.group import Count
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod, PodSpec
from tonnage.model.storage import ClaimSource, PodVolume


class Ordinals(msgspec.Struct, gc=False, frozen=True):
    """The numbers of a StatefulSet's pods."""

    start: Count = 0


class ClaimTemplate(msgspec.Struct, gc=False, frozen=True):
    """The template of claims, one for each pod; only its name is read."""

    metadata: ObjectMeta = ObjectMeta()


class StatefulSetSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a StatefulSet."""

    replicas: Count = 1
    template: PodTemplate = PodTemplate()
    ordinals: Ordinals = Ordinals()
    volumeClaimTemplates: list[ClaimTemplate] | None = None


class StatefulSet(msgspec.Struct, gc=False, frozen=True):
    """A StatefulSet."""

    kind: ClassVar[str] = "StatefulSet"
    metadata: ObjectMeta
    spec: StatefulSetSpec = StatefulSetSpec()

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        yield "spec.template", self.spec.template

    def missing(self, inventory: Inventory) -> Iterator[Pod]:
        """All of its pods that are missing, although its controller may make one only after the one before is ready.

        A pod that is being deleted keeps its number until it is gone; one that has ended is replaced.
        """
        meta, template, first = self.metadata, self.spec.template, self.spec.ordinals.start
        reference = OwnerReference(meta.name, controller=True, kind="StatefulSet")
        spec = inventory.admitted(template.spec)
        for number in range(first, first + self.spec.replicas):
            name = f"{meta.name}-{number}"
            present = inventory.pods.get(f"{meta.namespace or 'default'}/{name}")
            if present is not None and not present.is_over:
                continue
            labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
            claimed = self._with_claims(spec, name, inventory)
            yield inventory.pod(name, reference, meta.namespace, template, claimed, labels)

    def _with_claims(self, spec: PodSpec, pod: str, inventory: Inventory) -> PodSpec:
        """The specification with the pod's claims, as far as they exist: a new one restricts no node yet."""
        own = [
            PodVolume(claim.metadata.name, ClaimSource(f"{claim.metadata.name}-{pod}"))
            for claim in self.spec.volumeClaimTemplates or ()
            if f"{self.metadata.namespace or 'default'}/{claim.metadata.name}-{pod}" in inventory.claims
        ]
        return replace(spec, volumes=[*(spec.volumes or ()), *own]) if own else spec
