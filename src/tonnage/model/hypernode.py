"""HyperNodes: Volcano's objects for nodes that are close to each other in the network."""

from typing import Annotated

import msgspec

from tonnage.model.meta import ObjectMeta
from tonnage.model.selection import Expression

NODE, HYPERNODE = "Node", "HyperNode"


class ExactMatch(msgspec.Struct, gc=False, frozen=True):
    """Selects the node or HyperNode of one name."""

    name: str = ""


class RegexMatch(msgspec.Struct, gc=False, frozen=True):
    """Selects all names in which the pattern is found."""

    pattern: str = ""


class LabelMatch(msgspec.Struct, gc=False, frozen=True):
    """Selects all nodes whose labels meet every requirement."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[Expression] | None = None


class MemberSelector(msgspec.Struct, gc=False, frozen=True):
    """A selector of nodes or HyperNodes; exactly one of the three is given."""

    exactMatch: ExactMatch | None = None
    regexMatch: RegexMatch | None = None
    labelMatch: LabelMatch | None = None


class Member(msgspec.Struct, gc=False, frozen=True):
    """Members of a HyperNode: nodes or other HyperNodes."""

    type: str
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(msgspec.Struct, gc=False, frozen=True):
    """The tier of a HyperNode, lower for members that are closer to each other, and its members."""

    tier: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    tierName: str | None = None
    members: list[Member] | None = None


class HyperNode(msgspec.Struct, gc=False, frozen=True):
    """A HyperNode: nodes that are close to each other in the network, or HyperNodes of such nodes."""

    metadata: ObjectMeta
    spec: HyperNodeSpec

    @property
    def name(self) -> str:
        return self.metadata.name
