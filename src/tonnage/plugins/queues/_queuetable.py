"""Queues as columns: what each is entitled to, what its jobs ask for and hold, and who belongs to whom.

Arrays have the queue on the last axis and the resource before it. Rows are level by level from the top, the children of
one parent beside each other: important ones first, then the older, then by name. So the order in which queues are given
makes no difference, and of two equals the one that stands first is the one that is served first.
"""

import math
from collections.abc import Iterable, Sequence
from operator import add
from typing import NamedTuple

import msgspec
import numpy as np

from tonnage.cluster.columns import LARGEST, UNLIMITED, Array
from tonnage.model.resources import CPU, show

MOST = 2**56
"""More than this is not shared out of any resource, so that all of it can be divided exactly."""
HEAVIEST = 2**28
"""Weights above this are taken for this, so that sums of thousands of them are exact in floats."""
DEFAULT_PRIORITY = 100

Amounts = Sequence[int]
"""One whole number per resource, in the order of the table's dimensions."""


class Dimension(NamedTuple):
    """A resource that is shared out, and how many of the counted amounts make a whole one (1,000 for cards)."""

    name: str
    unit: int = 1

    def show(self, amount: int) -> str:
        """An amount for people."""
        if amount >= UNLIMITED:
            return "unlimited"
        return f"{amount / self.unit:g}" if self.unit > 1 else show(self.name, amount)

    def figure(self, amount: float) -> float:
        """An amount for programs: processors, bytes, cards."""
        if amount >= UNLIMITED:
            return math.inf
        return amount / (1000 if self.name == CPU else self.unit)


class QueueTerms(msgspec.Struct, frozen=True):
    """One queue; amounts that are left out are 0, a limit that is left out is none, and -1 means unlimited."""

    name: str
    parent: str = ""
    priority: int = DEFAULT_PRIORITY
    created: str = ""
    deserved: Amounts = ()
    """What it has a right to; KAI calls it quota."""
    limit: Amounts = ()
    """What it must not exceed; Volcano calls it capability."""
    weight: Amounts = ()
    """How much of what nobody has a right to it gets, against others."""
    guarantee: Amounts = ()
    """What is kept for it even while it does not use it."""
    request: Amounts = ()
    """What its own jobs hold and wait for."""
    allocated: Amounts = ()
    """What its own jobs hold."""
    fixed: Amounts = ()
    """The part of it held by jobs that must not be stopped."""


class QueueLevel(NamedTuple):
    """The queues at one depth of the tree; positions count from the first of them."""

    rows: slice
    parents: Array
    """The rows of their parents, each once; one row that does not exist at the top."""
    starts: Array
    """Where the children of each parent begin."""
    owner: Array
    """For each queue the position of its parent in `parents`."""
    pool: Array
    """For each resource of each queue, resource by resource, which amount it gets its part of."""
    rank: Array
    """The same way, how many higher priorities the queue's siblings have."""
    unit: Array
    """The same way, how much of the resource makes a whole one."""


class QueueTreeError(ValueError):
    """Queues that are no tree."""


def whole_cluster(total: Amounts) -> Array:
    """What is shared out, as a column."""
    return np.array([max(0, min(amount, MOST)) for amount in total], np.int64).reshape(-1, 1)


def plus(one: Amounts, other: Amounts) -> list[int]:
    """The sums of two amounts of each resource."""
    return list(map(add, one, other))


def faults(queues: Iterable[QueueTerms]) -> dict[str, str]:
    """Names of queues that have no place in a tree, and why; without them the others make one."""
    parents: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for queue in queues:
        if queue.name in parents:
            wrong[queue.name] = f"there are two queues {queue.name!r}"
        parents[queue.name] = queue.parent
    rooted = {""} | set(wrong)
    for name in parents:
        trail: dict[str, None] = {}
        while name not in rooted and name not in trail and name in parents:
            trail[name] = None
            name = parents[name]
        if name in trail:
            circle = [*list(trail)[list(trail).index(name) :], name]
            wrong |= dict.fromkeys(circle, "its parents lead back to itself: " + " → ".join(circle))
        elif name not in rooted:
            last = list(trail)[-1]
            wrong[last] = f"its parent {name!r} does not exist"
        for queue_name in reversed(trail):
            parent = parents[queue_name]
            if parent in wrong:
                wrong.setdefault(queue_name, f"its parent {parent!r} has no place in the tree")
        rooted |= set(trail)
    return wrong


class QueueTable:
    """All queues of a cluster."""

    def __init__(self, dimensions: Iterable[Dimension], queues: Iterable[QueueTerms]) -> None:
        self.dimensions = tuple(dimensions)
        given = list(queues)
        wrong = faults(given)
        if wrong:
            name, why = next(iter(sorted(wrong.items())))
            raise QueueTreeError(f"queue {name!r}: {why}; leave it out or correct it")
        self.queues, levels = _in_order(given)
        self.rows: dict[str, int] = {queue.name: row for row, queue in enumerate(self.queues)}
        self.parent: list[int] = [self.rows.get(queue.parent, -1) for queue in self.queues]
        self.levels: list[QueueLevel] = [self._level(start, end) for start, end in levels]
        self.deserved = self._column([queue.deserved for queue in self.queues], absent=0, unlimited=True)
        self.limit = self._column([queue.limit for queue in self.queues], absent=UNLIMITED, unlimited=True)
        self.guarantee = self._column([queue.guarantee for queue in self.queues])
        self.weight = np.minimum(self._column([queue.weight for queue in self.queues]), HEAVIEST)
        self.request = self.with_children(self._column([queue.request for queue in self.queues]))
        self.allocated = self.with_children(self._column([queue.allocated for queue in self.queues]))
        self.fixed = self.with_children(self._column([queue.fixed for queue in self.queues]))
        self._paths: dict[int, tuple[int, ...]] = {}
        self._branches: dict[tuple[int, int], tuple[int, int]] = {}

    def path(self, row: int) -> tuple[int, ...]:
        """A queue and all above it, upwards."""
        known = self._paths.get(row)
        if known is None:
            above = self.parent[row]
            known = self._paths[row] = (row, *(self.path(above) if above >= 0 else ()))
        return known

    def branches(self, one: int, other: int) -> tuple[int, int]:
        """The two queues right under the lowest queue that has both below it."""
        known = self._branches.get((one, other))
        if known is None:
            left, right = one, other
            for left, right in zip(reversed(self.path(one)), reversed(self.path(other)), strict=False):
                if left != right:
                    break
            known = self._branches[one, other] = left, right
        return known

    def with_children(self, own: Array) -> Array:
        """Amounts of queues to which those of all queues below are added."""
        summed = own.copy()
        for level in self.levels[:0:-1]:
            summed[:, level.parents] += np.add.reduceat(summed[:, level.rows], level.starts, axis=1)
        return summed

    def _column(self, rows: Sequence[Amounts], absent: int = 0, *, unlimited: bool = False) -> Array:
        nothing = (absent,) * len(self.dimensions)
        column = np.array([row if len(row) else nothing for row in rows], np.int64)
        column = column.reshape(len(rows), len(self.dimensions)).T
        # All rows together must fit into 64 bits, whatever they say.
        most = min(LARGEST, UNLIMITED // max(len(rows), 1))
        below, most = (UNLIMITED, UNLIMITED) if unlimited else (0, most)
        return np.ascontiguousarray(np.where(column < 0, below, np.minimum(column, most)))

    def _level(self, start: int, end: int) -> QueueLevel:
        parent = np.array(self.parent[start:end], np.intp)
        parents, starts, owner = np.unique(parent, return_index=True, return_inverse=True)
        priority = np.array([queue.priority for queue in self.queues[start:end]])
        lower = np.zeros(end - start, np.intp)
        lower[1:] = (priority[1:] != priority[:-1]) & (parent[1:] == parent[:-1])
        steps = np.cumsum(lower)
        pool = np.arange(len(self.dimensions))[:, None] * len(parents) + owner
        rank = np.tile(steps - steps[starts][owner], len(self.dimensions))
        unit = np.repeat(np.array([dimension.unit for dimension in self.dimensions], np.int64), end - start)
        return QueueLevel(slice(start, end), parents, starts, owner, pool.ravel(), rank, unit)


def _in_order(queues: Sequence[QueueTerms]) -> tuple[list[QueueTerms], list[tuple[int, int]]]:
    """Queues level by level, and where each level starts and ends."""
    children: dict[str, list[QueueTerms]] = {}
    for queue in sorted(queues, key=lambda queue: (-queue.priority, queue.created, queue.name)):
        children.setdefault(queue.parent, []).append(queue)
    ordered: list[QueueTerms] = []
    levels: list[tuple[int, int]] = []
    level = children.get("", [])
    while level:
        levels.append((len(ordered), len(ordered) + len(level)))
        ordered += level
        level = [child for queue in level for child in children.get(queue.name, ())]
    return ordered, levels
