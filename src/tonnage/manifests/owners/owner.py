"""The common form of owners of pods: pod templates, and what every kind answers about its pods."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol

import msgspec

from tonnage.model.group import VolcanoPodGroup
from tonnage.model.meta import ObjectMeta
from tonnage.model.pod import Pod, PodSpec

if TYPE_CHECKING:
    from tonnage.manifests.owners.inventory import Inventory


class PodTemplate(msgspec.Struct, gc=False, frozen=True):
    """The template of an owner's pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Condition(msgspec.Struct, gc=False, frozen=True):
    """A condition of an owner; its texts are not read."""

    type: str = ""
    status: str = ""


class PodOwner(Protocol):
    """An object whose controller makes pods."""

    kind: ClassVar[str]

    @property
    def metadata(self) -> ObjectMeta: ...

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Its pod templates, each with the path of its field."""
        ...

    def missing(self, inventory: "Inventory") -> Iterator[Pod | VolcanoPodGroup]:
        """The pods that its controller would make beside those of the input, and their PodGroup if it makes one."""
        ...


def is_true(conditions: list[Condition] | None, *types: str) -> bool:
    """Whether one of these conditions is true."""
    return any(one.type in types and one.status == "True" for one in conditions or ())
