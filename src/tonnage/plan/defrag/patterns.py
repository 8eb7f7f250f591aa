"""Patterns: what might become of one node, as pods that leave it and classes of pods that come, with value and price.

The solver chooses at most one pattern per node. New patterns are made for prices of room: what a class of pods would
pay for a place. A node then gives up pods whose going is worth more than their places elsewhere cost, and takes pods
that pay more than the goal loses by them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import Array
from tonnage.plan.defrag.problem import PlanProblem, Solution
from tonnage.plan.defrag.releases import releases
from tonnage.plan.defrag.states import States, joined

_MOST_COMING = 6
"""How many pods a pattern adds at most."""
_KEPT_RELEASES = 4
"""How many releases of a node are looked at in one round, beside none at all."""
_SMALL = 1e-7


class NodePattern(NamedTuple):
    """One future of a node."""

    row: int
    leaving: tuple[int, ...]
    """Movable pods by number."""
    coming: tuple[tuple[int, int], ...]
    """Classes of pods, and how many of each."""
    value: float
    price: float

    @property
    def worth(self) -> float:
        return self.value - self.price


class RoomPrices(NamedTuple):
    """What room and limits cost, by the solver's last answer."""

    kinds: Array
    """What a place for a pod of each class is worth."""
    rows: Array
    """What a unit of each limit is worth."""
    gain: float = 1.0
    """The part of its value that more of the goal still has: less than 1 if a target is enough."""

    def effective(self, problem: PlanProblem) -> Array:
        """The price of moving each pod, with what it takes of limits."""
        return np.array([pod.price + sum(self.rows[row] * amount for row, amount in pod.takes) for pod in problem.pods])


class Patterns:
    """Makes patterns of nodes."""

    def __init__(self, problem: PlanProblem) -> None:
        self._problem = problem
        board = problem.board
        self._now = problem.worth.of(board.now) * problem.rates
        self._sets = [(row, pods) for row in range(len(board.now)) for pods in ((), *releases(problem, row))]
        self._rows = np.array([row for row, _ in self._sets], np.intp)
        holders = [[problem.pods[pod].holder for pod in pods] for _, pods in self._sets]
        self._after = board.without(board.now.take(self._rows), holders)
        self._worth = problem.worth.of(self._after) * problem.rates.take(self._rows)
        self._numbers = {one: at for at, one in enumerate(self._sets)}

    def of_solution(self, solution: Solution) -> list[NodePattern]:
        """The patterns that a solution comes to."""
        problem = self._problem
        leaving: dict[int, list[int]] = {}
        coming: dict[int, Counter[int]] = {}
        for move in solution.moves:
            leaving.setdefault(problem.pods[move.pod].row, []).append(move.pod)
            coming.setdefault(move.row, Counter())[problem.pods[move.pod].kind] += 1
        for start in solution.starts:
            for kind, row in zip(problem.waiting[start.job].kinds, start.rows, strict=True):
                coming.setdefault(row, Counter())[kind] += 1
        return [
            self._pattern(row, tuple(sorted(leaving.get(row, ()))), coming.get(row, Counter()))
            for row in sorted({*leaving, *coming})
        ]

    def _pattern(self, row: int, pods: tuple[int, ...], kinds: Counter[int]) -> NodePattern:
        problem, board = self._problem, self._problem.board
        states = board.now.take(np.array([row]))
        states = board.without(states, [[problem.pods[pod].holder for pod in pods]])
        for kind in kinds.elements():
            _, states = board.added(states, problem.kinds.tasks[kind], problem.kinds.allowed[kind])
        value = float(problem.worth.of(states)[0] * problem.rates[row] - self._now[row])
        return NodePattern(row, pods, tuple(sorted(kinds.items())), value, self._price(pods))

    def _price(self, pods: Sequence[int]) -> float:
        return sum(self._problem.pods[pod].price for pod in pods)

    def first_prices(self) -> RoomPrices:
        """A guess at what room costs: what the goal would lose by one more pod of each class where it costs least."""
        problem = self._problem
        found = np.zeros(len(problem.kinds.tasks))
        for kind, task in enumerate(problem.kinds.tasks):
            fits, after = problem.board.added(problem.board.now, task, problem.kinds.allowed[kind])
            lost = self._now - problem.worth.of(after) * problem.rates
            found[kind] = lost[fits].min() if fits.any() else float(problem.rates.max(initial=0.0))
        return RoomPrices(np.maximum(found, 0.0) + _SMALL, np.zeros(len(problem.rows)))

    def all_of_them(self, most: int) -> list[NodePattern] | None:
        """Every pattern that there is; nothing if they are more than so many."""
        problem, board = self._problem, self._problem.board
        left = np.zeros(len(problem.kinds.tasks), np.int64)
        for kind in [pod.kind for pod in problem.pods] + [kind for job in problem.waiting for kind in job.kinds]:
            left[kind] += 1
        kinds = left.nonzero()[0].tolist()
        sets, states = np.arange(len(self._sets)), self._after
        coming: list[tuple[int, ...]] = [()] * len(self._sets)
        found = list(enumerate(coming))
        worth = self._worth.tolist()
        while kinds and len(sets) and len(found) <= most:
            grown: list[tuple[Array, States, list[tuple[int, ...]]]] = []
            for kind in kinds:
                # In the order of classes, so that no pattern is made twice.
                may = [
                    at for at, one in enumerate(coming) if (not one or one[-1] <= kind) and one.count(kind) < left[kind]
                ]
                some = states.take(np.array(may, np.intp))
                fits, after = board.added(some, problem.kinds.tasks[kind], problem.kinds.allowed[kind])
                which = fits.nonzero()[0]
                more = [(*coming[may[at]], kind) for at in which.tolist()]
                grown.append((sets[np.array(may, np.intp)][which], after.take(which), more))
            sets = np.concatenate([one for one, _, _ in grown])
            states = joined([one for _, one, _ in grown])
            coming = [one for _, _, more in grown for one in more]
            found += zip(sets.tolist(), coming, strict=True)
            worth += (problem.worth.of(states) * problem.rates.take(states.rows)).tolist()
        if len(found) > most:
            return None
        made = [(int(self._rows[at]), at, one, np.inf, value) for (at, one), value in zip(found, worth, strict=True)]
        return self._above(made, np.zeros(len(board.now)))

    def priced(self, prices: RoomPrices, bar: Array, kinds: Sequence[int]) -> list[NodePattern]:
        """Patterns worth more than a bar for each node at these prices, with pods of some classes coming."""
        problem, board = self._problem, self._problem.board
        effective = prices.effective(problem)
        owed = np.array(
            [sum(effective[pod] + prices.kinds[problem.pods[pod].kind] for pod in pods) for _, pods in self._sets]
        )
        score = prices.gain * (self._worth - self._now.take(self._rows)) - owed
        chosen = self._best_sets(score)
        states, score = self._after.take(chosen), score[chosen]
        worth, rows = self._worth[chosen], self._rows[chosen]
        rates = problem.rates.take(rows)
        coming: list[tuple[int, ...]] = [()] * len(chosen)
        made: list[tuple[int, int, tuple[int, ...], float, float]] = []
        self._note(made, chosen, coming, score, worth, np.arange(len(chosen)))
        for _ in range(_MOST_COMING):
            best = np.full(len(states), _SMALL)
            which = np.full(len(states), -1)
            best_states, best_worth = states.copy(), worth.copy()
            for kind in kinds:
                fits, after = board.added(states, problem.kinds.tasks[kind], problem.kinds.allowed[kind])
                now = problem.worth.of(after) * rates
                better = prices.kinds[kind] + prices.gain * (now - worth)
                take = (fits & (better > best)).nonzero()[0]
                if len(take):
                    best[take], which[take], best_worth[take] = better[take], kind, now[take]
                    best_states.put(take, after.take(take))
            grown = (which >= 0).nonzero()[0]
            if not len(grown):
                break
            for at in grown.tolist():
                coming[at] = (*coming[at], int(which[at]))
            states, worth, score = best_states, best_worth, score + np.where(which >= 0, best, 0.0)
            self._note(made, chosen, coming, score, worth, grown)
        return self._above(made, bar)

    def _best_sets(self, score: Array) -> Array:
        """The best releases of each node, and none at all."""
        order = np.lexsort((-score, self._rows))
        rank = np.zeros(len(score), np.int64)
        rows = self._rows[order]
        begins = np.concatenate([[True], rows[1:] != rows[:-1]])
        starts = begins.nonzero()[0]
        rank[order] = np.arange(len(score)) - np.repeat(starts, np.diff([*starts, len(score)]))
        empty = np.array([not pods for _, pods in self._sets])
        result: Array = ((rank < _KEPT_RELEASES) | empty).nonzero()[0]
        return result

    def _note(
        self,
        made: list[tuple[int, int, tuple[int, ...], float, float]],
        chosen: Array,
        coming: Sequence[tuple[int, ...]],
        score: Array,
        worth: Array,
        which: Array,
    ) -> None:
        for at in which.tolist():
            number = int(chosen[at])
            made.append((int(self._rows[number]), number, coming[at], float(score[at]), float(worth[at])))

    def _above(self, made: Sequence[tuple[int, int, tuple[int, ...], float, float]], bar: Array) -> list[NodePattern]:
        found: list[NodePattern] = []
        for row, number, coming, score, worth in made:
            pods = self._sets[number][1]
            if score > bar[row] + _SMALL and (pods or coming):
                counted = tuple(sorted(Counter(coming).items()))
                found.append(NodePattern(row, pods, counted, worth - float(self._now[row]), self._price(pods)))
        return found
