"""Topology domains: nodes that share the value of a label, and what is counted over each of them."""

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array


class LabelDomains:
    """The nodes by the values of one label; the first domain is that of nodes without the label."""

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
        """A column summed up over each domain, by the domain's number; what is outside of all counts nothing."""
        totals = np.bincount(self.numbers, column)
        if len(totals):
            totals[0] = 0
        return totals

    def spread_out(self, column: Array) -> Array:
        """For each node the sum of a column over all nodes of its domain; 0 for nodes in none."""
        return self.totals(column).take(self.numbers)
