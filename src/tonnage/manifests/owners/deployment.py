"""Deployments of apps/v1, whose pods belong to ReplicaSets."""

from collections.abc import Iterator
from hashlib import sha256
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from tonnage.manifests.owners.inventory import POD_TEMPLATE_HASH, Inventory, is_active
from tonnage.manifests.owners.owner import PodTemplate
from tonnage.manifests.owners.replicaset import ReplicaSet
from tonnage.model.group import Count
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod
from tonnage.model.wire import comparable

_HASH_LENGTH = 10


class DeploymentSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a Deployment."""

    replicas: Count = 1
    template: PodTemplate = PodTemplate()
    paused: bool = False


class Deployment(msgspec.Struct, gc=False, frozen=True):
    """A Deployment."""

    kind: ClassVar[str] = "Deployment"
    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        yield "spec.template", self.spec.template

    def missing(self, inventory: Inventory) -> Iterator[Pod]:
        meta, template = self.metadata, self.spec.template
        known = self._replica_set(inventory)
        if known is None and self.spec.paused:
            return
        replica_set, label = known or self._new_replica_set()
        present = {pod.key: pod for pod in inventory.pods_of("Deployment", meta.key)}
        for child in inventory.children("Deployment", meta.key, ReplicaSet):
            present.update((pod.key, pod) for pod in inventory.pods_of("ReplicaSet", child.metadata.key))
        reference = OwnerReference(replica_set, controller=True, kind="ReplicaSet")
        spec = inventory.admitted(template.spec)
        labels = {POD_TEMPLATE_HASH: label}
        for _ in range(self.spec.replicas - sum(map(is_active, present.values()))):
            name = inventory.free_name(meta.namespace, replica_set)
            yield inventory.pod(name, reference, meta.namespace, template, spec, labels)

    def _replica_set(self, inventory: Inventory) -> tuple[str, str] | None:
        """The name and hash of its current ReplicaSet, as far as the input tells."""
        for child in inventory.children("Deployment", self.metadata.key, ReplicaSet):
            found = child.spec.template
            labels = dict(found.metadata.labels or {})
            label = labels.pop(POD_TEMPLATE_HASH, "")
            alike = replace(found, metadata=replace(found.metadata, labels=labels or None))
            if alike == self.spec.template:
                return child.metadata.name, label
        pods = inventory.pods_of("Deployment", self.metadata.key)
        named = {(owner.name, pod.labels[POD_TEMPLATE_HASH]) for pod in pods if (owner := pod.metadata.controller)}
        return named.pop() if len(named) == 1 else None

    def _new_replica_set(self) -> tuple[str, str]:
        """The name and hash of a ReplicaSet that does not exist yet."""
        label = sha256(comparable(self.spec.template)).hexdigest()[:_HASH_LENGTH]
        return f"{self.metadata.name}-{label}", label
