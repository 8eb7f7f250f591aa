"""The fill order of domains: a job that needs several of them should need few."""

from collections.abc import Iterable, Sequence

import numpy as np

from tonnage.cluster.columns import Array

_STEP = 100_000.0
"""The score distance between domains: more than other scores differ by."""


def filling_order(parts: Iterable[int], capacity: Sequence[float], inside: Sequence[float], needed: int) -> list[int]:
    """Domains in fill order: with pods of the job, then by free capacity, then by number.

    The domain that holds the rest is the tightest one that fits it.
    """
    order = sorted(parts, key=lambda part: (-inside[part], -capacity[part], part))
    left = float(needed)
    for place, part in enumerate(order):
        if capacity[part] >= left:
            rest = [other for other in order[place:] if inside[other] == inside[part] and capacity[other] >= left]
            last = min(rest, key=lambda other: (capacity[other], other))
            order.remove(last)
            order.insert(place, last)
            break
        left -= capacity[part]
    return order


def filling_scores(layers: Iterable[tuple[Array, Sequence[int]]]) -> Array | None:
    """A score for each node by its domains; the first of several layers counts most.

    A layer is the domain number of each node, and the domains in fill order; others come last.
    """
    result: Array | None = None
    for numbers, order in layers:
        ranks = np.zeros(int(numbers.max(initial=0)) + 1)
        ranks[list(order)] = np.arange(len(order), 0, -1)
        ranked = ranks.take(numbers)
        result = ranked if result is None else result * (len(order) + 1) + ranked
    return None if result is None else result * _STEP
