"""Topologies: KAI's objects for the levels of a cluster, each a node label, from the widest to the narrowest."""

import msgspec

from tonnage.model.meta import ObjectMeta


class TopologyLevel(msgspec.Struct, gc=False, frozen=True):
    """One level: nodes with equal values of its label and of the labels of all levels above form a domain."""

    nodeLabel: str


class TopologySpec(msgspec.Struct, gc=False, frozen=True):
    """The levels, the widest first."""

    levels: list[TopologyLevel] | None = None


class Topology(msgspec.Struct, gc=False, frozen=True):
    """A Topology: the levels of a cluster."""

    metadata: ObjectMeta
    spec: TopologySpec = TopologySpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each level, the widest first; of a duplicate only the first counts."""
        return tuple(dict.fromkeys(level.nodeLabel for level in self.spec.levels or ()))
