"""Node sets: the alternatives, such as racks, of which one is to hold all pods of a job."""

from collections.abc import Iterable

import msgspec

from tonnage.cluster.columns import Array
from tonnage.framework.decision import Reason


class NodeSet(msgspec.Struct, eq=False):
    """Nodes that may hold a job's pods together, to the exclusion of all others."""

    name: str
    """Its name in messages."""
    mask: Array
    """True for its nodes."""
    has_room: bool = True
    """Whether the pods may fit there now; if not, others would have to leave first."""
    scores: Array | None = None
    """Scores of the nodes on top of the plugins'; nothing if they are alike."""
    plugin: str = ""
    """The plugin that gave it; filled in by the session."""


class NodeSets(list[NodeSet]):
    """The alternatives in the order in which they are tried; none if the job has to wait."""

    def __init__(self, sets: Iterable[NodeSet], reason: Reason) -> None:
        super().__init__(sets)
        self.reason = reason
        """Why the job waits if none of the sets holds it."""
        self.plugin = ""
        """The plugin that gave them; filled in by the session."""

    def attribute_to(self, plugin: str) -> None:
        """Note the plugin that gave them."""
        self.plugin = plugin
        for one in self:
            one.plugin = plugin
