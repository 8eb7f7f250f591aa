"""The fit of a pod class: a verdict and a total score for each node, and the search for the best nodes."""

import numpy as np

from tonnage.cluster.columns import Array

FITS = 0
MAYBE = 255
"""A predicate's answer for a node that it must check more closely before it can say yes."""
NOTHING = np.float64(-np.inf)
"""The total of nodes on which the pods do not fit."""


class ClassFit:
    """Where pods of one class fit, and how good each node is for them."""

    __slots__ = ("counts", "floor", "totals", "verdicts")

    def __init__(self, verdicts: Array, counts: Array, totals: Array, floor: np.float64 = NOTHING) -> None:
        self.verdicts = verdicts
        """Per node 0 if the pods fit there, else the verdict of the first predicate that rejects it."""
        self.counts = counts
        """How many nodes have each verdict."""
        self.totals = totals
        """The sum of scores where the pods fit or may fit, minus infinity elsewhere."""
        self.floor = floor
        """The lowest of the best totals of the last search, a good guess where the next one may stop."""

    def settle_row(self, row: int, verdict: int) -> None:
        """Record the verdict of a closer look at one node."""
        self.set_verdict(row, verdict)
        if verdict != FITS:
            self.totals[row] = NOTHING

    def set_verdict(self, row: int, verdict: int) -> bool:
        """Set the verdict about a node, and count it; whether it is another one than before."""
        before = self.verdicts.item(row)
        if before == verdict:
            return False
        self.counts[before] -= 1
        self.counts[verdict] += 1
        self.verdicts[row] = verdict
        return True

    def best(self, most: int, among: Array | None = None, scores: Array | None = None) -> list[int]:
        """Rows with the highest totals, highest first and lower rows first among equals; only fitting ones.

        With `among` only those rows, by totals plus `scores`.
        """
        if among is not None:
            totals = self.totals if scores is None else self.totals + scores
            return _highest(np.where(among, totals, NOTHING), most)
        if most == 1:
            row = int(self.totals.argmax()) if len(self.totals) else -1
            return [row] if row >= 0 and self.totals.item(row) != NOTHING else []
        rows = self._guess(most) if self.floor != NOTHING else None
        if rows is None:
            rows = _highest(self.totals.copy(), most)
        self.floor = self.totals[rows[-1]] if len(rows) == most else NOTHING
        return rows

    def _guess(self, most: int) -> list[int] | None:
        """The best rows, if looking above the floor of last time finds enough of them and not too many."""
        totals = self.totals
        above = (totals > self.floor).nonzero()[0]
        count = len(above)
        if count > 8 * most:
            return None
        if count > 1:
            above = above.take((-totals.take(above)).argsort(kind="stable")[:most])
        rows: list[int] = above.tolist()
        if count < most:
            rows += (totals == self.floor).nonzero()[0][: most - count].tolist()
        return rows if len(rows) == most else None


def _highest(left: Array, most: int) -> list[int]:
    """Rows with the highest totals; overwrites the array."""
    rows: list[int] = []
    while len(rows) < min(most, len(left)):
        row = int(left.argmax())
        if left.item(row) == NOTHING:
            break
        rows.append(row)
        left[row] = NOTHING
    return rows
