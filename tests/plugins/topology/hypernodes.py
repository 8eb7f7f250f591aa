"""Words for tests about the network: HyperNodes as people write them."""

from tonnage.model.hypernode import ExactMatch, HyperNode, HyperNodeSpec, LabelMatch, Member, MemberSelector, RegexMatch
from tonnage.model.meta import ObjectMeta
from tonnage.model.selection import Expression


def exact(name: str, kind: str = "Node") -> Member:
    return Member(kind, MemberSelector(exactMatch=ExactMatch(name)))


def matching(pattern: str, kind: str = "Node") -> Member:
    return Member(kind, MemberSelector(regexMatch=RegexMatch(pattern)))


def labelled(*expressions: Expression, kind: str = "Node", **labels: str) -> Member:
    return Member(kind, MemberSelector(labelMatch=LabelMatch(labels, list(expressions))))


def hypernode(name: str, tier: int, *members: Member | str) -> HyperNode:
    """A HyperNode; a member given as a name is a node at tier 1, and a HyperNode above."""
    kind = "Node" if tier == 1 else "HyperNode"
    made = [exact(member, kind) if isinstance(member, str) else member for member in members]
    return HyperNode(ObjectMeta(name=name), HyperNodeSpec(tier, members=made))
