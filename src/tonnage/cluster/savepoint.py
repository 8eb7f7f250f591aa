"""Savepoint: the pods of a cluster before a cycle, to which the cluster returns if the cycle fails.

A cycle reserves places, releases them, and marks pods as leaving; it changes neither nodes nor running pods. After a
failure at any point, rolling back restores these sets and counts everything else anew from what pods hold.
"""

from tonnage.cluster.cluster import Cluster


class Savepoint:
    """The pods of a cluster by status, and what is reserved for them, as they are now."""

    def __init__(self, cluster: Cluster) -> None:
        # Bringing rows into order is not a part of a cycle that could be undone.
        cluster.settle()
        self._cluster = cluster
        self._waiting = dict(cluster.waiting)
        self._reserved = dict(cluster.reserved)
        self._held = {key: held for key in cluster.reserved if (held := cluster.held(key)) is not None}
        self._pipelined = set(cluster.pipelined)
        self._leaving = set(cluster.leaving)

    def roll_back(self) -> None:
        """Bring the cluster back to this state; no event may have come in between."""
        cluster = self._cluster
        for tasks, before in ((cluster.waiting, self._waiting), (cluster.reserved, self._reserved)):
            tasks.clear()
            tasks.update(before)
        for names, known in ((cluster.pipelined, self._pipelined), (cluster.leaving, self._leaving)):
            names.clear()
            names.update(known)
        cluster.recount(self._held)
