"""A Topology as KAI writes it: how a cluster is divided, by which labels of nodes, from the widest to the narrowest."""

import msgspec

from tonnage.model.meta import ObjectMeta


class TopologyLevel(msgspec.Struct, gc=False, frozen=True):
    """One level: nodes with the same value of the label, and of those of all levels above, belong together."""

    nodeLabel: str


class TopologySpec(msgspec.Struct, gc=False, frozen=True):
    """The levels, the widest first."""

    levels: list[TopologyLevel] | None = None


class Topology(msgspec.Struct, gc=False, frozen=True):
    """How a cluster is divided."""

    metadata: ObjectMeta
    spec: TopologySpec = TopologySpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each level, the widest first; one that stands twice counts where it stands first."""
        return tuple(dict.fromkeys(level.nodeLabel for level in self.spec.levels or ()))
