"""Dominant shares, and KAI's order of queues by them.

A dominant share is the largest share of any one resource: of the cluster in Volcano's drf, of what the queue may have
in KAI's proportion.
"""

from collections.abc import Iterator, Sequence
from operator import gt, sub, truediv

from tonnage.plugins.queues._queuetable import Amounts, plus
from tonnage.plugins.queues._queueusage import LastResort, QueueUsage

WITHOUT_SHARE = 1000
"""The number of shares that a whole unit counts for if the queue may have none of the resource."""

QueueKey = tuple[bool, bool, int, bool, float, float, LastResort]
"""The sort key of a queue; the smaller is served first."""


def drf_share(allocated: Sequence[float], total: Sequence[float]) -> float:
    """The largest share of the cluster; 1 if something is held that the cluster lacks."""
    return max([_share(held, most) for held, most in zip(allocated, total, strict=True)], default=0.0)


def dominant_share(usage: QueueUsage, queue: int, allocated: Amounts) -> float:
    """The largest share of what the queue may have, if it held these amounts."""
    largest, measure = 0.0, usage.measure[queue]
    if 0 not in measure:
        shares: Iterator[float] = map(truediv, allocated, measure)
        return max(largest, *shares)
    for place, most in enumerate(measure):
        held = allocated[place]
        share = held / most if most else held * WITHOUT_SHARE / usage.dimensions[place].unit
        if share > largest:
            largest = share
    return largest


def order_key(
    usage: QueueUsage,
    queue: int,
    job: Amounts | None = None,
    held: Amounts | None = None,
    given_up: Amounts | None = None,
) -> QueueKey:
    """KAI's sort key of a queue, for the job that the queue would run next.

    `held` replaces what the queue holds, to compare it as if it held something else. `given_up` is what a queue gives
    up to others: the first dominant share leaves it out, and everything else is judged by what the queue holds now.

    Queues come in this order: not over its fair share in every resource; within what it deserves with the job; the
    higher priority; no use of a resource that it may have none of; the smaller dominant share with the job; the smaller
    one without it; the queue that may have less; the older. If neither of two queues may have less of everything, the
    first resource that differs decides, so that the order has no cycles.
    """
    held = usage.allocated[queue] if held is None else held
    allocatable = usage.allocatable[queue]
    with_job = plus(held, job) if job is not None else held
    over_fair = all(map(gt, held, usage.fair[queue]))
    over_deserved = any(map(gt, with_job, usage.deserved[queue]))
    without_share = 0 in allocatable and any(
        have > 0 for have, most in zip(with_job, allocatable, strict=True) if not most
    )
    now = dominant_share(usage, queue, held)
    afterwards = with_job if given_up is None else list(map(sub, with_job, given_up))
    then = now if afterwards is held else dominant_share(usage, queue, afterwards)
    return (over_fair, over_deserved, usage.rank[queue], without_share, then, now, usage.last_resort[queue])


def _share(held: float, most: float) -> float:
    if most:
        return held / most
    return 1.0 if held else 0.0
