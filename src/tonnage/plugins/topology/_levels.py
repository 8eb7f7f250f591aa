"""Topology levels: nested domains of nodes that share the values of several labels, the widest first."""

from collections.abc import Sequence

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array
from tonnage.plugins.topology._jobroom import Totals


class TopologyLevels:
    """The domains of each label, numbered by name; 0 stands for nodes without the label.

    The nodes of a domain share the label's value and those of all labels before it, so that domains nest.
    """

    def __init__(self, cluster: Cluster, labels: Sequence[str]) -> None:
        cluster.settle()
        self.labels = tuple(labels)
        self.numbers: list[Array] = []
        """By level, the domain number of each node."""
        self.names: list[list[str]] = []
        """By level and number, the values that a domain's nodes share; the first stands for no domain."""
        for label in self.labels:
            self._add(cluster, label)

    def _add(self, cluster: Cluster, label: str) -> None:
        column = cluster.label(label)
        values = sorted(column.numbers)
        places = np.zeros(len(values) + 1, np.int64)
        # Nodes without the label have number -1 and find the last entry.
        places[[column.numbers[value] for value in values]] = np.arange(1, len(values) + 1)
        place = places.take(column.ids, mode="wrap") if len(values) else np.zeros(len(column.ids), np.int64)
        above = self.numbers[-1] if self.numbers else np.ones(len(place), np.int64)
        joined = np.where((above > 0) & (place > 0), above * (len(values) + 1) + place, 0)
        found, numbers = np.unique(np.append(joined, 0), return_inverse=True)
        parents = self.names[-1] if self.names else ["", ""]
        names = [""]
        for number in found[1:].tolist():
            parent, own = divmod(number, len(values) + 1)
            names.append("/".join(part for part in (parents[parent], values[own - 1]) if part))
        self.numbers.append(numbers.reshape(-1)[:-1])
        self.names.append(names)

    def count(self, level: int) -> int:
        """The number of domains."""
        return len(self.names[level]) - 1

    def totals(self, level: int) -> Totals:
        """A function that sums a column of nodes over the domains of a level, by domain number."""
        numbers, size = self.numbers[level], len(self.names[level])
        return lambda column: np.bincount(numbers, column, minlength=size)

    def above(self, level: int, wider: int) -> Array:
        """The number of the wider domain that contains each domain of a level."""
        around = np.zeros(len(self.names[level]), np.int64)
        around[self.numbers[level]] = self.numbers[wider]
        around[0] = 0
        return around
