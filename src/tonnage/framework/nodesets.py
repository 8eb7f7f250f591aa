"""Node sets: the alternatives, such as racks, of which one is to hold all pods of a job."""

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from tonnage.cluster.columns import Array
from tonnage.cluster.task import Task
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

    def within(self, around: NodeSet) -> "NodeSets":
        """The same on the nodes of another set only; of sets that are then alike the first."""
        found: dict[bytes, NodeSet] = {}
        for one in self:
            mask: Array = one.mask & around.mask
            name = one.name if np.array_equal(mask, one.mask) else f"{one.name} in {around.name}"
            if mask.any():
                found.setdefault(mask.tobytes(), msgspec.structs.replace(one, name=name, mask=mask))
        sets = NodeSets(found.values(), self.reason)
        sets.plugin = self.plugin
        return sets

    def attribute_to(self, plugin: str) -> None:
        """Note the plugin that gave them."""
        self.plugin = plugin
        for one in self:
            one.plugin = plugin


SetOf = Callable[[Task], NodeSet | None]
"""The set of nodes that each pod of a job keeps to; nothing if all nodes do."""


def anywhere(task: Task) -> NodeSet | None:
    """All nodes do for every pod."""
    return None
