"""Resource scores of Kubernetes, as arithmetic over arrays.

`requested` is what would be in use with the pod, `capacity` what the node has; both are integer arrays of (resources,
nodes), and `weights` is a column. A resource that a node lacks is skipped there. Scores are integers from 0 to 100, as
Kubernetes computes them; the Resource Bin Packing function keeps fractions and goes from 0 to 10.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tonnage.cluster.columns import Array

MOST = 100
"""The best score of a node, and full utilization in percent."""
_SHAPE_SCALE = 10
"""A shape's scores go from 0 to 10."""


def least_allocated(requested: Array, capacity: Array, weights: Array) -> Array:
    """LeastAllocated: the share that stays free; a resource that would overflow scores 0."""
    left = np.maximum(capacity - requested, 0)
    return _mean(left * MOST // np.maximum(capacity, 1), (capacity > 0) * weights)


def most_allocated(requested: Array, capacity: Array, weights: Array) -> Array:
    """MostAllocated: the share in use; a resource that would overflow counts as full."""
    return _mean(utilization(requested, capacity), (capacity > 0) * weights)


def requested_to_capacity_ratio(requested: Array, capacity: Array, weights: Array, table: Array) -> Array:
    """RequestedToCapacityRatio: the shape at the share in use, from `shape_table`; scores of 0 are skipped."""
    scores = table.take(utilization(requested, capacity))
    weights = ((capacity > 0) & (scores > 0)) * weights
    total, weight_sum = (scores * weights).sum(axis=0), np.maximum(weights.sum(axis=0), 1)
    rounded: Array = (2 * total + weight_sum) // (2 * weight_sum)
    return rounded.astype(np.float64)


def resource_bin_packing(requested: Array, capacity: Array, weights: Array, weight_sum: int) -> Array:
    """The Resource Bin Packing priority function: the weighted mean share in use, 0 to 10, not rounded.

    Every weight counts on every node: a node without the resource scores 0 for it. If more is in use than there is, the
    share exceeds 1, because the function has no upper bound.
    """
    shares = requested / np.where(capacity > 0, capacity, np.inf) * weights
    # A running sum adds in the same order for one node as for thousands, so that the last digit agrees.
    total: Array = np.add.accumulate(shares, axis=0)[-1]
    return total / weight_sum * 10


def utilization(requested: Array, capacity: Array) -> Array:
    """The integer percentage in use, rounded down, at most 100."""
    result: Array = np.minimum(requested, capacity) * MOST // np.maximum(capacity, 1)
    return result


def shape_table(points: Sequence[tuple[int, int]]) -> Array:
    """The score, 0 to 100, at every utilization from 0 to 100 percent; a shape's own scores go from 0 to 10."""
    scaled = [(at, score * _SHAPE_SCALE) for at, score in points]
    return np.array([broken_line(scaled, percent) for percent in range(MOST + 1)], np.int64)


def broken_line(points: Sequence[tuple[int, int]], at: int) -> int:
    """The piecewise linear function through the points, constant outside, in integers truncated towards zero."""
    if at <= points[0][0]:
        return points[0][1]
    for (left, start), (right, end) in pairwise(points):
        if at <= right:
            return start + _truncated((end - start) * (at - left), right - left)
    return points[-1][1]


def balanced_allocation(used: Array, requested: Array, capacity: Array) -> Array:
    """BalancedAllocation: how much more evenly a node's resources are in use once the pod is there.

    Evenness is the integer part of 100 × (1 − σ), where σ is the standard deviation of the used shares of the resources
    that the node has. The score is 50 + (50 + with the pod − without it) / 2, as since Kubernetes 1.36. `requested` is
    the pod's own column here.
    """
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
    """From 0 to 100, in the steps in which Kubernetes computes it."""
    shares = np.minimum(used / capacity, 1.0)
    count = len(shares)
    deviation = np.zeros(shares.shape[1])
    if count == 2:
        deviation = np.abs((shares[0] - shares[1]) / 2)
    elif count > 2:
        # A running sum adds in the same order for one node as for thousands, so that the last digit agrees.
        shares = shares - np.add.accumulate(shares, axis=0)[-1] / count
        deviation = np.sqrt(np.add.accumulate(shares * shares, axis=0)[-1] / count)
    result: Array = ((1 - deviation) * 100).astype(np.int64)
    return result


def _truncated(dividend: int, divisor: int) -> int:
    """Integer division by a positive number, truncated towards zero as in Go, where Python rounds down."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def _mean(scores: Array, weights: Array) -> Array:
    """The weighted mean, rounded down; 0 without weights."""
    total: Array = (scores * weights).sum(axis=0) // np.maximum(weights.sum(axis=0), 1)
    return total.astype(np.float64)
