"""The inventory of an input: which pods and owners it has already, and how a missing pod is made."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from tonnage.manifests.owners.owner import PodOwner, PodTemplate
from tonnage.model.group import VolcanoPodGroup
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod, PodSpec
from tonnage.model.timestamp import rfc3339

T = TypeVar("T")

POD_TEMPLATE_HASH = "pod-template-hash"
"""The label by which a Deployment tells the pods of its ReplicaSets apart; their names end with it."""


class Inventory:
    """The objects of an input by name and by owner."""

    def __init__(
        self,
        pods: Iterable[Pod],
        owners: Iterable[PodOwner],
        groups: Iterable[VolcanoPodGroup],
        claims: Iterable[str],
        priorities: Mapping[str, int],
        now: float,
    ) -> None:
        self.pods = {pod.key: pod for pod in pods}
        self.claims = frozenset(claims)
        """Namespaces and names of PersistentVolumeClaims."""
        self.groups = {group.key: group for group in groups}
        self.now = now
        self._priorities = priorities
        self._owners = {(one.kind, one.metadata.key): one for one in owners}
        self._pods_of: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self.pods.values():
            self._note_owner(pod)
        self._children: dict[tuple[str, str], list[PodOwner]] = defaultdict(list)
        for one in self._owners.values():
            owner = one.metadata.controller
            if owner is not None:
                self._children[owner.kind, _beside(one.metadata, owner.name)].append(one)
        self._numbers: dict[str, int] = {}

    def _note_owner(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is None:
            return
        self._pods_of[owner.kind, _beside(pod.metadata, owner.name)].append(pod)
        suffix = f"-{pod.labels.get(POD_TEMPLATE_HASH, '')}"
        if owner.kind == "ReplicaSet" and suffix != "-" and owner.name.endswith(suffix):
            deployment = owner.name.removesuffix(suffix)
            self._pods_of["Deployment", _beside(pod.metadata, deployment)].append(pod)

    def pods_of(self, kind: str, key: str) -> list[Pod]:
        """The pods that an object owns; those of a Deployment through its ReplicaSets."""
        return self._pods_of.get((kind, key), [])

    def has(self, kind: str, key: str) -> bool:
        """Whether the input has an owner."""
        return (kind, key) in self._owners

    def children(self, owner_kind: str, key: str, kind: type[T]) -> list[T]:
        """The owners of a kind that another one owns."""
        return [one for one in self._children.get((owner_kind, key), ()) if isinstance(one, kind)]

    def admitted(self, spec: PodSpec, priority_class: str | None = None) -> PodSpec:
        """The specification with its priority, as the API server sets it; a default class may be given."""
        name = spec.priorityClassName or priority_class
        if not name or spec.priority is not None:
            return spec
        return replace(spec, priorityClassName=name, priority=self._priorities.get(name, 0))

    def free_name(self, namespace: str | None, prefix: str) -> str:
        """A name with the next number in place of the random suffix that a controller would draw."""
        stem = f"{namespace or 'default'}/{prefix}"
        while True:
            number = self._numbers[stem] = self._numbers.get(stem, 0) + 1
            if f"{stem}-{number}" not in self.pods:
                return f"{prefix}-{number}"

    def pod(
        self,
        name: str,
        owner: OwnerReference,
        namespace: str | None,
        template: PodTemplate,
        spec: PodSpec,
        labels: Mapping[str, str],
        annotations: Mapping[str, str] | None = None,
    ) -> Pod:
        """A pod of a template, made now."""
        said = template.metadata
        return Pod(
            ObjectMeta(
                name=name,
                namespace=namespace,
                labels={**(said.labels or {}), **labels},
                annotations={**(said.annotations or {}), **(annotations or {})},
                creationTimestamp=rfc3339(self.now),
                ownerReferences=[owner],
            ),
            spec,
        )


def is_active(pod: Pod) -> bool:
    """Whether a pod counts for its controller: it has not ended and is not being deleted."""
    return not pod.is_over and not pod.is_leaving


def _beside(meta: ObjectMeta, name: str) -> str:
    """The key of an object in the same namespace."""
    return f"{meta.namespace or 'default'}/{name}"
