"""The queue table: entitlements, requests and holdings of a tree of queues, as columns.

Arrays have the queue on the last axis and the resource before it. Rows are ordered level by level from the top, the
children of one parent together: by priority, then the older, then by name. So the input order makes no difference, and
of two equal queues the first is served first.
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
"""No more than this is divided of any resource, so that the division is exact."""
HEAVIEST = 2**28
"""Larger weights are capped, so that sums of thousands of them are exact in floats."""
DEFAULT_PRIORITY = 100

Amounts = Sequence[int]
"""One integer per resource, in the order of the table's dimensions."""


class Dimension(NamedTuple):
    """A divided resource, and how many counted amounts make a whole unit (1,000 for cards)."""

    name: str
    unit: int = 1

    def show(self, amount: int) -> str:
        """An amount as text."""
        if amount >= UNLIMITED:
            return "unlimited"
        return f"{amount / self.unit:g}" if self.unit > 1 else show(self.name, amount)

    def figure(self, amount: float) -> float:
        """An amount as a number of CPUs, bytes or cards."""
        if amount >= UNLIMITED:
            return math.inf
        return amount / (1000 if self.name == CPU else self.unit)


class QueueTerms(msgspec.Struct, frozen=True):
    """A queue; omitted amounts are 0, an omitted limit is none, and -1 means unlimited."""

    name: str
    parent: str = ""
    priority: int = DEFAULT_PRIORITY
    created: str = ""
    deserved: Amounts = ()
    """What it deserves; KAI calls it quota."""
    limit: Amounts = ()
    """Its limit; Volcano calls it capability."""
    weight: Amounts = ()
    """Its weight in the division of the rest."""
    guarantee: Amounts = ()
    """What is reserved for it even while unused."""
    request: Amounts = ()
    """What its own jobs hold and wait for."""
    allocated: Amounts = ()
    """What its own jobs hold."""
    fixed: Amounts = ()
    """The part of it held by non-preemptible jobs."""


class QueueLevel(NamedTuple):
    """The queues at one depth of the tree; positions count from the first of them."""

    rows: slice
    parents: Array
    """The rows of their parents, each once; at the top one row that does not exist."""
    starts: Array
    """The position of each parent's first child."""
    owner: Array
    """For each queue the index of its parent in `parents`."""
    pool: Array
    """For each resource of each queue, resource by resource, the pool that it is a part of."""
    rank: Array
    """In the same layout, the number of higher priorities among the queue's siblings."""
    unit: Array
    """In the same layout, the size of a whole unit."""


class QueueTreeError(ValueError):
    """Queues that do not form a tree."""


def whole_cluster(total: Amounts) -> Array:
    """The divided total, as a column."""
    return np.array([max(0, min(amount, MOST)) for amount in total], np.int64).reshape(-1, 1)


def plus(one: Amounts, other: Amounts) -> list[int]:
    """The sum of two amounts."""
    return list(map(add, one, other))


def faults(queues: Iterable[QueueTerms]) -> dict[str, str]:
    """The queues that do not fit into a tree, and why; the others form one."""
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
        """A queue and its ancestors, upwards."""
        known = self._paths.get(row)
        if known is None:
            above = self.parent[row]
            known = self._paths[row] = (row, *(self.path(above) if above >= 0 else ()))
        return known

    def branches(self, one: int, other: int) -> tuple[int, int]:
        """The branches of two queues right below their lowest common ancestor."""
        known = self._branches.get((one, other))
        if known is None:
            left, right = one, other
            for left, right in zip(reversed(self.path(one)), reversed(self.path(other)), strict=False):
                if left != right:
                    break
            known = self._branches[one, other] = left, right
        return known

    def with_children(self, own: Array) -> Array:
        """The amounts of queues including their descendants."""
        summed = own.copy()
        for level in self.levels[:0:-1]:
            summed[:, level.parents] += np.add.reduceat(summed[:, level.rows], level.starts, axis=1)
        return summed

    def _column(self, rows: Sequence[Amounts], absent: int = 0, *, unlimited: bool = False) -> Array:
        nothing = (absent,) * len(self.dimensions)
        column = np.array([row if len(row) else nothing for row in rows], np.int64)
        column = column.reshape(len(rows), len(self.dimensions)).T
        # The sum of all rows must fit into 64 bits, whatever queues state.
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
    """Queues level by level, and the bounds of each level."""
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
