"""Capacity: queues have a right to what they say they deserve, of each resource by itself, as in Volcano.

They may hold more up to their capability as long as others leave it idle, and give it back to those that ask for what
they deserve. With `enableHierarchy` queues are parts of others, and a queue holds what those below it hold.
"""

from tonnage.plugins.queues._capacityqueues import CapacityQueues
from tonnage.plugins.queues._queueshares import QueueShares

HIERARCHY = "enableHierarchy"


class Capacity(QueueShares, trusted=True):
    """Queues deserve what they say, no more than they could have, no less than their guarantee."""

    name = "capacity"
    switches = frozenset((HIERARCHY,))

    def make_rules(self, by_kai: bool) -> CapacityQueues:
        """Rules for a tree of queues, or for queues side by side."""
        groups = self._session.cluster.groups
        parents = groups.hierarchy().parents if HIERARCHY in self.options.switched_on else {}
        return CapacityQueues(self.table(parents), self._counts.total)
