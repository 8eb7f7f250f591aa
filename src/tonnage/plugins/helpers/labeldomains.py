"""Topology domains: the nodes that share a label's value, and sums over each domain."""

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array


class LabelDomains:
    """Nodes grouped by the value of one label; domain 0 holds the nodes without it."""

    __slots__ = ("label", "numbers")

    def __init__(self, cluster: Cluster, label: str) -> None:
        self.label = label
        self.numbers: Array = cluster.label(label).ids + np.int64(1)
        """The number of each node's domain; 0 for nodes in none."""

    @property
    def inside(self) -> Array:
        """True for nodes that have the label."""
        return np.asarray(self.numbers != np.int64(0))

    def totals(self, column: Array) -> Array:
        """The sums of a column over each domain, by domain number; domain 0 counts nothing."""
        totals = np.bincount(self.numbers, column)
        if len(totals):
            totals[0] = 0
        return totals

    def spread_out(self, column: Array) -> Array:
        """For each node the sum of a column over its domain; 0 for nodes without the label."""
        return self.totals(column).take(self.numbers)
