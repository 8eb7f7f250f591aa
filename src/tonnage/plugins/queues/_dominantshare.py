"""Dominant shares, and which queue is served next.

A dominant share is the largest of the shares that somebody has of the single resources: of the cluster in Volcano's
drf, of what the queue may have in KAI's proportion.
"""

from collections.abc import Sequence
from operator import gt

from tonnage.plugins.queues._queuetable import Amounts, plus
from tonnage.plugins.queues._queueusage import LastResort, QueueUsage

WITHOUT_SHARE = 1000
"""A whole unit of something that a queue may have nothing of counts as so many shares."""

QueueKey = tuple[bool, bool, int, bool, float, float, LastResort]
"""What queues are compared by; the smaller is served first."""


def drf_share(allocated: Sequence[float], total: Sequence[float]) -> float:
    """The largest share of the cluster; all of it if there is none of something that is held."""
    return max([_share(held, most) for held, most in zip(allocated, total, strict=True)], default=0.0)


def dominant_share(usage: QueueUsage, queue: int, allocated: Amounts) -> float:
    """The largest share of what the queue may have, if it held that much."""
    largest = 0.0
    for place, most in enumerate(usage.measure[queue]):
        held = allocated[place]
        share = held / most if most else held * WITHOUT_SHARE / usage.dimensions[place].unit
        if share > largest:
            largest = share
    return largest


def order_key(usage: QueueUsage, queue: int, job: Amounts | None = None, held: Amounts | None = None) -> QueueKey:
    """KAI's order of queues, for the job that the queue would run next, as a key that can be sorted by.

    What the queue holds may be given, if it is to be compared as if it held something else.

    Comes first: who is not over its fair share in every resource; who stays within what it deserves with the job; the
    higher priority; who uses nothing of which it may have nothing; the smaller dominant share with the job; the
    smaller one without it; who may have less; the older. Where neither of two may
    have less of everything, the first resource that differs decides, so that the order has no circles.
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
    then = now if with_job is held else dominant_share(usage, queue, with_job)
    return (over_fair, over_deserved, usage.rank[queue], without_share, then, now, usage.last_resort[queue])


def _share(held: float, most: float) -> float:
    if most:
        return held / most
    return 1.0 if held else 0.0
