"""Sets of nodes that are tried one after another for the pods of a job as a whole."""

from collections.abc import Iterable

import msgspec

from tonnage.cluster.columns import Array
from tonnage.framework.decision import Reason


class NodeSet(msgspec.Struct, eq=False):
    """Nodes of which a job's pods are to find places on one or several, and on no others."""

    name: str
    """How messages call it."""
    mask: Array
    """True for its nodes."""
    has_room: bool = True
    """Whether the pods may fit there as things are; if not, others would have to leave first."""
    scores: Array | None = None
    """What each node scores beside what plugins say of it; nothing if its nodes are alike."""
    plugin: str = ""
    """Whose set it is; filled in by the session."""


class NodeSets(list[NodeSet]):
    """All sets that will do, in the order in which they are tried; none if the job has to wait."""

    def __init__(self, sets: Iterable[NodeSet], reason: Reason) -> None:
        super().__init__(sets)
        self.reason = reason
        """Why the job waits if none of the sets holds it."""
        self.plugin = ""
        """Who says so; filled in by the session."""

    def said_by(self, plugin: str) -> None:
        """Note whose answer it is."""
        self.plugin = plugin
        for one in self:
            one.plugin = plugin
