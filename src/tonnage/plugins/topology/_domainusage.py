"""Domain usage: what groups of nodes, such as racks or HyperNodes, offer and have in use in total.

A node may be in several domains. A resource that a node does not state counts nothing for its domains.
"""

from collections.abc import Collection, Mapping

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import UNLIMITED, Array

_FEW = 32
"""Up to so many changed rows are added one by one; beyond that recounting everything is faster."""


class DomainUsage:
    """Membership as (domains, nodes), and sums over members as (resources, domains), kept current by row.

    An instance is valid for one layout of the columns and one membership.
    """

    def __init__(self, cluster: Cluster, nodes: Mapping[str, Collection[str]]) -> None:
        """`nodes` holds the node names of each domain, in order; unknown nodes are skipped."""
        cluster.settle()
        self._columns = columns = cluster.columns
        self.names = tuple(nodes)
        self.member = np.zeros((len(self.names), columns.size), np.bool_)
        """Which nodes are in which domain."""
        for domain, names in enumerate(nodes.values()):
            self.member[domain] = cluster.mask(names)
        self._of_node = np.ascontiguousarray(self.member.T).astype(np.int64)
        self._clock = -1
        self._counted = np.zeros((2, len(columns.resources), columns.size), np.int64)
        """The part of each node in the sums: offered and in use."""
        self._sums = np.zeros((2, len(columns.resources), len(self.names)), np.int64)

    @property
    def offered(self) -> Array:
        """What the nodes of each domain offer in total."""
        offered: Array = self._current()[0]
        return offered

    @property
    def used(self) -> Array:
        """How much of that is in use."""
        used: Array = self._current()[1]
        return used

    def _current(self) -> Array:
        columns = self._columns
        if self._clock < columns.clock:
            changed = (columns.version > np.int64(self._clock)).nonzero()[0]
            now = self._stated(changed)
            if len(changed) <= _FEW:
                self._sums += (now - self._counted.take(changed, axis=-1)) @ self._of_node.take(changed, axis=0)
                self._counted[..., changed] = now
            else:
                self._counted[..., changed] = now
                for domain, member in enumerate(self.member):
                    self._sums[..., domain] = self._counted.compress(member, axis=-1).sum(axis=-1)
            self._clock = columns.clock
        return self._sums

    def _stated(self, rows: Array) -> Array:
        """What nodes offer and have in use; 0 for resources that they do not state."""
        offered, free = (column.take(rows, axis=-1) for column in (self._columns.allocatable, self._columns.free))
        return np.where(offered < UNLIMITED, np.stack([offered, offered - free]), 0)
