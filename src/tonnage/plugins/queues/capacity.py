"""Volcano's capacity: queues are entitled to what they state as deserved, per resource.

Queues may hold more, up to their capability, as long as others leave it idle, and others reclaim it up to what they
deserve. With `enableHierarchy` queues form a tree, and a queue holds what its descendants hold.
"""

from tonnage.plugins.queues._capacityqueues import CapacityQueues
from tonnage.plugins.queues._queueshares import QueueShares

HIERARCHY = "enableHierarchy"


class Capacity(QueueShares, trusted=True):
    """Queues deserve what they state, at most what they could have, at least their guarantee."""

    name = "capacity"
    switches = frozenset((HIERARCHY,))

    def make_rules(self, by_kai: bool) -> CapacityQueues:
        """The rules of a tree of queues, or of flat ones."""
        groups = self._session.cluster.groups
        parents = groups.hierarchy().parents if HIERARCHY in self.options.switched_on else {}
        return CapacityQueues(self.table(parents), self._counts.total)
