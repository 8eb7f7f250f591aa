"""In which order the parts of a set of nodes are filled, so that a job that needs several of them needs few."""

from collections.abc import Iterable, Sequence

import numpy as np

from tonnage.cluster.columns import Array

_STEP = 100_000.0
"""How much a part is ahead of the next one: more than other scores differ."""


def filling_order(parts: Iterable[int], capacity: Sequence[float], inside: Sequence[float], needed: int) -> list[int]:
    """Parts in the order in which they are filled: those with pods of the job, then the roomier, then by number.

    The part that is to hold the rest is the tightest that does.
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
    """A score for each node by the parts that it is in; of several layers the first counts most.

    A layer is the number of each node's part, and the parts in their order; others come last.
    """
    result: Array | None = None
    for numbers, order in layers:
        ranks = np.zeros(int(numbers.max(initial=0)) + 1)
        ranks[list(order)] = np.arange(len(order), 0, -1)
        ranked = ranks.take(numbers)
        result = ranked if result is None else result * (len(order) + 1) + ranked
    return None if result is None else result * _STEP
