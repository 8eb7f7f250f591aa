"""A HyperNode as Tonnage reads it: Volcano's word for nodes that are near each other in the network."""

from typing import Annotated

import msgspec

from tonnage.model.meta import ObjectMeta
from tonnage.model.selection import Expression

NODE, HYPERNODE = "Node", "HyperNode"


class ExactMatch(msgspec.Struct, gc=False, frozen=True):
    """The one of that name."""

    name: str = ""


class RegexMatch(msgspec.Struct, gc=False, frozen=True):
    """All with a name in which the pattern is found."""

    pattern: str = ""


class LabelMatch(msgspec.Struct, gc=False, frozen=True):
    """All nodes whose labels meet everything that is said here."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[Expression] | None = None


class MemberSelector(msgspec.Struct, gc=False, frozen=True):
    """Which nodes or HyperNodes are meant; exactly one of the three is given."""

    exactMatch: ExactMatch | None = None
    regexMatch: RegexMatch | None = None
    labelMatch: LabelMatch | None = None


class Member(msgspec.Struct, gc=False, frozen=True):
    """Nodes or HyperNodes that belong to one."""

    type: str
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(msgspec.Struct, gc=False, frozen=True):
    """How near its members are to each other, the lower the nearer, and which they are."""

    tier: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    tierName: str | None = None
    members: list[Member] | None = None


class HyperNode(msgspec.Struct, gc=False, frozen=True):
    """Nodes that are near each other in the network, or groups of such."""

    metadata: ObjectMeta
    spec: HyperNodeSpec

    @property
    def name(self) -> str:
        return self.metadata.name
