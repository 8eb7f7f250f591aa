"""Object metadata, which every Kubernetes object has."""

import msgspec


class OwnerReference(msgspec.Struct, gc=False, frozen=True):
    """A reference to the owner of an object."""

    name: str = ""
    controller: bool = False
    kind: str = ""


class ObjectMeta(msgspec.Struct, gc=False, frozen=True):
    """The part of an object's metadata that Tonnage reads."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    ownerReferences: list[OwnerReference] | None = None

    @property
    def key(self) -> str:
        """Namespace and name, unique among objects of one kind that exist at the same time."""
        return f"{self.namespace or 'default'}/{self.name}"

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object, such as the ReplicaSet of a pod."""
        return next((one for one in self.ownerReferences or () if one.controller), None)


NOTHING: dict[str, str] = {}
"""Stands in for absent labels and annotations; never written to."""
