"""KAI's fair share: what every queue of a tree can count on, so that no requested resource lies idle.

The total is divided among the top-level queues, and each queue's share among its children, for each resource
separately:

1. Every queue gets what it deserves, or what it requests (up to its limit) if that is less. That may exceed the total;
   then nothing remains.
2. The rest goes by priority, the highest first; the next priority gets what these do not want. Queues of one priority
   divide it by weight as long as they want more. A queue that wants less than its slice gets what it wants, and the
   remainder is divided again; the others get the whole units of their slice, and the fraction of a unit that was cut
   off is kept.
3. What rounding leaves over goes out one unit at a time, to the largest fraction, then to the older queue, then by
   name; no queue gets more than it wants.

All numbers are integers and all comparisons exact. As always when shares are rounded to whole units, a unit more in
total may cost a single queue some of its own; the sum never shrinks.
"""

from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array
from tonnage.plugins.queues._queuetable import MOST, Amounts, QueueLevel, QueueTable, whole_cluster

_FIRST = np.zeros(1, np.intp)


class Fractions(NamedTuple):
    """The fractions of a unit that queues of one priority did not get.

    The fractions are floats, which is exact enough: different fractions over one sum of weights are different floats.
    """

    cells: Array
    amounts: Array


def divide(table: QueueTable, total: Amounts) -> Array:
    """The fair share of every queue: resources × queues."""
    wanted = np.minimum(np.minimum(table.request, table.limit), MOST)
    shares = np.zeros_like(wanted)
    pool = whole_cluster(total)
    for number, level in enumerate(table.levels):
        if number:
            pool = shares.take(level.parents, axis=1)
        shares[:, level.rows] = _divide_level(table, level, pool, wanted[:, level.rows])
    return shares


def _divide_level(table: QueueTable, level: QueueLevel, pool: Array, wanted: Array) -> Array:
    deserved = table.deserved[:, level.rows]
    everything = pool.take(level.owner, axis=1)
    share: Array = np.minimum(np.where(deserved >= UNLIMITED, everything, deserved), wanted)
    left = np.maximum(pool - np.add.reduceat(share, level.starts, axis=1), 0)
    missing = wanted - share
    weight = table.weight[:, level.rows]
    open_cells = np.flatnonzero((missing > 0) & (weight > 0) & (left.take(level.owner, axis=1) > 0))
    if open_cells.size:
        division = _Division(level, missing, weight, left)
        division.by_priority(open_cells)
        share = wanted - missing
    return share


class _Division:
    """The division of the rest at one level; a cell is a resource of a queue, a pool is a resource of its parent."""

    def __init__(self, level: QueueLevel, missing: Array, weight: Array, left: Array) -> None:
        self.pool, self.rank, self.unit = level.pool, level.rank, level.unit
        self.weight = weight.ravel()
        self.missing = missing.reshape(-1)
        self.left = left.reshape(-1)

    def by_priority(self, cells: Array) -> None:
        cells = cells.take(np.argsort(self.rank.take(cells), kind="stable"))
        for first, count in zip(*map(np.ndarray.tolist, _runs(self.rank.take(cells))), strict=True):
            if not self.left.any():
                return
            fractions = self._by_weight(cells[first : first + count])
            if fractions and self.left.any():
                self._unit_by_unit(Fractions(*(np.concatenate(columns) for columns in zip(*fractions, strict=True))))

    def _by_weight(self, cells: Array) -> list[Fractions]:
        """Divide by weight among queues of one priority, for all pools at once."""
        fractions: list[Fractions] = []
        cells = cells.compress(self.left.take(self.pool.take(cells)) > 0)
        while cells.size:
            pool = self.pool.take(cells)
            first, count = _runs(pool)
            pools = pool.take(first)
            weight, unit, wanted = self.weight.take(cells), self.unit.take(cells), self.missing.take(cells)
            weights = np.add.reduceat(weight, first).repeat(count)
            slices, remainders = times_over(self.left.take(pool), weight, weights)
            parts = np.zeros_like(slices)
            coarse = (unit > 1).nonzero()[0]
            parts[coarse] = slices.take(coarse) % unit.take(coarse)
            met = wanted <= slices
            given = np.where(met, wanted, slices - parts)
            self.missing[cells] = wanted - given
            self.left[pools] -= np.add.reduceat(given, first)
            spare = met & ((wanted < slices) | (remainders > 0))
            again = (np.logical_or.reduceat(spare, first) & (self.left.take(pools) > 0)).repeat(count)
            over = (~(met | again)).nonzero()[0]
            if over.size:
                amounts = parts.take(over) + remainders.take(over) / weights.take(over)
                fractions.append(Fractions(cells.take(over), amounts))
            cells = cells.compress(again & ~met)
        return fractions

    def _unit_by_unit(self, fractions: Fractions) -> None:
        """Hand out the rest that rounding left over, one unit at a time."""
        # The queues of a pool are in order already, and a stable sort keeps it among equals. Small integers sort
        # much faster than large ones.
        cells = fractions.cells.take(np.argsort(-fractions.amounts, kind="stable"))
        small = self.pool.take(cells).astype(np.min_scalar_type(len(self.left)))
        cells = cells.take(np.argsort(small, kind="stable"))
        pool = self.pool.take(cells)
        wanted = np.minimum(self.unit.take(cells), self.missing.take(cells))
        before = np.cumsum(wanted) - wanted
        first, count = _runs(pool)
        before -= before.take(first).repeat(count)
        given = np.clip(self.left.take(pool) - before, 0, wanted)
        self.missing[cells] -= given
        self.left[pool.take(first)] -= np.add.reduceat(given, first)


def _runs(values: Array) -> tuple[Array, Array]:
    """Where each run of equal values starts, and how long it is."""
    bounds = np.concatenate((_FIRST, (values[1:] != values[:-1]).nonzero()[0] + 1, (len(values),)))
    return bounds[:-1], bounds[1:] - bounds[:-1]


def times_over(amount: Array, weight: Array, weights: Array) -> tuple[Array, Array]:
    """Quotient and remainder of amount × weight ÷ weights, exact although the product may not fit into 64 bits.

    The float estimate is off by a few at most, so the remainder to it fits, and wrapping 64-bit arithmetic gets it
    right. Integer division would take several times as long.
    """
    estimate = (amount * (weight / weights)).astype(np.int64)
    remainder = amount * weight - estimate * weights
    correction = np.floor(remainder / weights).astype(np.int64)
    return estimate + correction, remainder - correction * weights
