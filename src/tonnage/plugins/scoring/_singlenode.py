"""Resource scores of a single node in plain Python, faster than arrays when few nodes changed.

The array versions define the scores, and tests compare both digit by digit. A node is a list of (free, used, counted,
offered) per resource.
"""

from collections.abc import Sequence
from math import sqrt

Node = Sequence[Sequence[int]]
Parts = Sequence[tuple[int, int, int]]
"""Row, amount and weight of each scored resource."""


def binpack(node: Node, parts: Sequence[tuple[int, int, float]], weight_sum: float) -> float:
    """Volcano's binpack: the weighted share that would be in use; 0 if a resource would overflow."""
    total = 0.0
    for row, amount, weight in parts:
        _, used, _, offered = node[row]
        if offered:
            after = used + amount
            if after > offered:
                return 0.0
            total += after * weight / offered
    return total / weight_sum


def least_allocated(node: Node, parts: Parts) -> int:
    """Kubernetes' LeastAllocated."""
    total = weight_sum = 0
    for row, amount, weight in parts:
        _, _, counted, offered = node[row]
        if offered:
            left = offered - counted - amount
            if left > 0:
                total += left * 100 // offered * weight
            weight_sum += weight
    return total // weight_sum if weight_sum else 0


def most_allocated(node: Node, parts: Parts) -> int:
    """Kubernetes' MostAllocated."""
    total = weight_sum = 0
    for row, amount, weight in parts:
        _, _, counted, offered = node[row]
        if offered:
            after = counted + amount
            total += (after * 100 // offered if after < offered else 100) * weight
            weight_sum += weight
    return total // weight_sum if weight_sum else 0


def balanced_allocation(node: Node, rows: Sequence[int], requested: Sequence[int]) -> int:
    """Kubernetes' BalancedAllocation."""
    before: list[float] = []
    after: list[float] = []
    for row, amount in zip(rows, requested, strict=True):
        _, used, _, offered = node[row]
        if offered:
            before.append(used / offered if used < offered else 1.0)
            used += amount
            after.append(used / offered if used < offered else 1.0)
    return (150 + _evenness(after) - _evenness(before)) >> 1


def _evenness(shares: Sequence[float]) -> int:
    count = len(shares)
    if count < 2:
        return 100
    if count == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * 100)
    mean = sum(shares) / count
    squares = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
    return int((1 - sqrt(squares / count)) * 100)
