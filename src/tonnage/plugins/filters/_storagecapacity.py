"""Storage capacity: where a class has enough storage left to provision a volume, as far as its driver says.

A CSIStorageCapacity is a pool of storage that some nodes reach. What is reserved for placed pods and not bound yet
counts against the pool, because the driver reports it only later.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.model.podselector import requirements
from tonnage.model.selection import SelectionError
from tonnage.model.storage import PersistentVolumeClaim, StorageClass
from tonnage.plugins.helpers.nodeterms import meeting_all


class _Pools(NamedTuple):
    """The pools of a class: their nodes, the largest volume, and how much they hold in all."""

    nodes: Array
    largest: Array
    total: Array


class StorageCapacity:
    """The pools of all classes; kept until storage objects, nodes or labels change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known = cluster.surroundings
        self._state = (-1, -1)
        self._pools: dict[str, _Pools] = {}

    def is_reported(self, found: StorageClass) -> bool:
        """Whether the driver of a class reports its capacity."""
        return self._known.drivers.get(found.provisioner, False)

    def suffices(
        self, found: StorageClass, claim: PersistentVolumeClaim, size: int, before: Array, nodes: Nodes
    ) -> Array:
        """True for nodes with a pool for a volume of that size, beside what the pod's claims before this one take."""
        pools = self._pools_of(found.metadata.name)
        there = nodes.pick(pools.nodes)
        taken = pools.nodes @ self._reserved(found.metadata.name, claim.key)
        with_it = taken[:, None] + before + size
        fits = there & (size <= pools.largest)[:, None] & (with_it <= pools.total[:, None])
        return np.asarray(fits.any(axis=0))

    def _reserved(self, storage_class: str, claim: str) -> Array:
        """The bytes that are reserved for other claims and not provisioned yet, by node."""
        reserved = np.zeros(self._cluster.columns.size, np.float64)
        for one, name in self._cluster.volumes.provisioned(storage_class):
            state = self._cluster.nodes.get(name)
            if state is not None and one.claim != claim:
                reserved[state.row] += one.size
        return reserved

    def _pools_of(self, storage_class: str) -> _Pools:
        state = self._cluster.columns.layout, self._cluster.topology.version
        if state != self._state:
            self._state = state
            self._pools.clear()
        known = self._pools.get(storage_class)
        if known is None:
            known = self._pools[storage_class] = self._read(storage_class)
        return known

    def _read(self, storage_class: str) -> _Pools:
        everywhere = Nodes(self._cluster.columns)
        found = [one for one in self._known.capacities.values() if one.storageClassName == storage_class]
        nodes = np.zeros((len(found), len(everywhere)), np.bool_)
        for number, pool in enumerate(found):
            # A pool that names no nodes is reached by none.
            if pool.nodeTopology is not None:
                with suppress(SelectionError):
                    nodes[number] = meeting_all(self._cluster, requirements(pool.nodeTopology), everywhere)
        return _Pools(nodes, _column([one.largest for one in found]), _column([one.total for one in found]))


def _column(numbers: list[int]) -> Array:
    return np.array(numbers, np.float64)
