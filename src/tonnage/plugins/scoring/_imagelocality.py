"""Kubernetes' ImageLocality: nodes that have a pod's images already are better, the larger the images are.

An image counts its size times the share of nodes that have it, so that not all pods go to the first node that pulled
it. Sums go from 23 MiB to 1000 MiB for each container.
"""

from collections.abc import Hashable

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST = 1000 * _MIB
_HIGHEST = 100


class ImageScore:
    """Scores nodes by the images they have."""

    def __init__(self, cluster: Cluster, weight: int) -> None:
        self._cluster = cluster
        self._weight = np.array(weight)

    def key(self, task: Task) -> Hashable:
        """The pod's images with how many nodes have each: when that changes, all nodes are scored anew."""
        spread = self._cluster.rows.images.spread
        if not spread:
            return ()
        known = [(name, spread[name]) for name in task.images if name in spread]
        return (len(task.kinds), *known) if known else ()

    def evaluate(self, task: Task, nodes: Nodes) -> Array | None:
        spread, total = self._cluster.rows.images.spread, self._cluster.columns.size
        known = [name for name in task.images if name in spread]
        if not known:
            return None
        parts = [nodes.pick(self._cluster.rows.image(name)) * (spread[name] / total) for name in known]
        found = np.array(parts).astype(np.int64).sum(axis=0)
        most = _MOST * len(task.kinds)
        scores: Array = _HIGHEST * (np.minimum(np.maximum(found, _LEAST), most) - _LEAST) // (most - _LEAST)
        scores *= self._weight
        return scores
