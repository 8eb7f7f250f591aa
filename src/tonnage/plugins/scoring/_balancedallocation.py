"""Kubernetes' BalancedAllocation: a node scores by how much evener its resources are in use once the pod is there.

How even is 100 × (1 − σ) without fractions, where σ is the standard deviation of the shares in use of what the node
has; the score is 50 + (50 + with the pod − without it) / 2, as since Kubernetes 1.36.
"""

import numpy as np

from tonnage.cluster.columns import Array


def balanced_allocation(used: Array, requested: Array, capacity: Array) -> Array:
    """Scores of nodes; arrays are of (resources, nodes), `requested` is a column."""
    has = capacity > 0
    patterns = np.packbits(has, axis=0)[0]
    result = np.zeros(used.shape[1], np.int64)
    for pattern in np.unique(patterns).tolist():
        nodes = patterns == pattern
        rows = has[:, nodes.argmax()]
        before, there = used[rows][:, nodes], capacity[rows][:, nodes]
        difference = _evenness(before + requested[rows], there) - _evenness(before, there)
        result[nodes] = (150 + difference) >> 1
    return result


def _evenness(used: Array, capacity: Array) -> Array:
    """From 0 to 100; in the steps in which Kubernetes computes it."""
    shares = np.minimum(used / capacity, 1.0)
    count = len(shares)
    deviation = np.zeros(shares.shape[1])
    if count == 2:
        deviation = np.abs((shares[0] - shares[1]) / 2)
    elif count > 2:
        # A running sum adds in the same order for one node as for thousands, so that the last digit is the same too.
        shares = shares - np.add.accumulate(shares, axis=0)[-1] / count
        deviation = np.sqrt(np.add.accumulate(shares * shares, axis=0)[-1] / count)
    result: Array = ((1 - deviation) * 100).astype(np.int64)
    return result
