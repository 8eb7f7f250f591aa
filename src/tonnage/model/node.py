"""Nodes as Tonnage reads them."""

import msgspec

from tonnage.model.meta import NOTHING, ObjectMeta
from tonnage.model.number import Int64
from tonnage.model.selection import Taint


class NodeSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a node."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeImage(msgspec.Struct, gc=False, frozen=True):
    """A container image on a node, with all its names."""

    names: list[str] | None = None
    sizeBytes: Int64 = 0


class NodeStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a node: its capacity, what is allocatable, and its images."""

    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    images: list[NodeImage] | None = None


class Node(msgspec.Struct, gc=False, frozen=True):
    """A node with what it offers and the devices its annotations register."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or NOTHING

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations or NOTHING
