"""The bound: no plan within the limits is worth more than this, whatever is moved where and in whichever order.

Room for a class of pods gets a price: who leaves pays it, who takes a pod in earns it. For any prices, what all cards
could earn at best if each decided alone is at least what the best plan is worth. A card decides which of its pods go
and what comes, by a knapsack over its memory; that CPU, several cards and other cards restrict it too is ignored,
which makes the bound larger and keeps it true. The lowest bound over prices is looked for by steps along its slope.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import MEMORY, Array
from tonnage.devices.base import PLAIN_MODE
from tonnage.model.resources import CPU
from tonnage.plan.defrag.goals import GoalKind
from tonnage.plan.defrag.patterns import RoomPrices
from tonnage.plan.defrag.problem import PlanProblem
from tonnage.plugins.fragmentation.typicalpods import TypicalPods
from tonnage.plugins.helpers.cardshares import WHOLE
from tonnage.plugins.helpers.podneeds import lasting_requests

_GRID = 200
"""In how many steps a card's memory is divided; amounts are rounded so that the bound stays one."""
_WORTHWHILE = 1e-4
"""A bound that is lower by less than this part is no progress."""
_PATIENCE = 5
"""After so many steps without progress, steps become shorter."""


class _Priced(NamedTuple):
    """A bound, and how it changes with the price of each class and of each limit."""

    bound: float
    kinds: Array
    rows: Array


class _Outfit(NamedTuple):
    """Cards that are alike but for what is free of them."""

    model: int
    memory: int


class _Card(NamedTuple):
    """A card with its movable pods."""

    row: int
    outfit: int
    curve: int
    """The number of its curve: what each free part of it is worth."""
    free: int
    """In steps, rounded up."""
    pods: tuple[tuple[int, int, float], ...]
    """Movable pods, with the steps that their going frees and the part of the pod that this card has."""


class DualBound:
    """Bounds for prices of room."""

    def __init__(self, problem: PlanProblem) -> None:
        self._problem = problem
        self._board = problem.board
        self._outfits: list[_Outfit] = []
        self._curves: list[Array] = []
        self._cards = self._all_cards()
        self._weights = self._kind_weights()
        self._now = float((problem.worth.of(self._board.now) * problem.rates).sum())
        gangs: dict[str, int] = {}
        for pod in problem.pods:
            if pod.gang:
                gangs[pod.job.key] = gangs.get(pod.job.key, 0) + 1
        self._prices = np.array([pod.price / gangs.get(pod.job.key, 1) for pod in problem.pods])
        """A gang that stops pays once, so that each of its pods counts with its part."""
        self._kind = np.array([pod.kind for pod in problem.pods], np.intp)
        self._sized = np.zeros(len(problem.kinds.tasks), np.bool_)
        """Classes that take a part of cards. Others could come without end, so that their room costs nothing here."""
        self._sized[[kind for here in self._weights for kind, _, _ in here]] = True

    # -- what does not depend on prices

    def _all_cards(self) -> list[_Card]:
        problem, columns = self._problem, self._board.columns
        shares_free = columns.card_free[MEMORY], columns.card_total[MEMORY]
        numbers: dict[_Outfit, int] = {}
        curves: dict[tuple[object, ...], int] = {}
        cpu = self._board.cpu(self._board.now).copy()
        for pod in problem.pods:
            cpu[pod.row] += pod.holder.free[columns.resources[CPU]]
        found: list[_Card] = []
        for row in range(columns.size):
            on: dict[int, list[tuple[int, int, float]]] = {}
            for number in problem.by_row.get(row, ()):
                holder = problem.pods[number].holder
                for at in holder.positions:
                    total = int(columns.card_total[MEMORY, at, row])
                    part = -(-int(holder.cards[MEMORY, at]) * _GRID // total) if total else _GRID
                    on.setdefault(at, []).append((number, min(part, _GRID), 1.0 / len(holder.positions)))
            models = columns.model[:, row]
            for at in (models > 0).nonzero()[0].tolist():
                total = int(shares_free[1][at, row])
                outfit = _Outfit(int(models[at]), total)
                number = numbers.setdefault(outfit, len(numbers))
                if number == len(self._outfits):
                    self._outfits.append(outfit)
                is_open = bool(problem.worth.open[row])
                if not total:
                    # Without memory a card is free or taken.
                    free = _GRID if (columns.card_free[:, at, row] >= columns.card_total[:, at, row]).all() else 0
                else:
                    free = -(-max(int(shares_free[0][at, row]), 0) * _GRID // total)
                key = self._curve_key(outfit, int(cpu[row]), int((models > 0).sum()), is_open)
                curve = curves.get(key)
                if curve is None:
                    curve = curves[key] = len(self._curves)
                    self._curves.append(self._curve(outfit, int(cpu[row]), int((models > 0).sum()), is_open))
                found.append(_Card(row, number, curve, min(free, _GRID), tuple(on.get(at, ()))))
        return found

    def _curve_key(self, outfit: _Outfit, cpu: int, cards: int, is_open: bool) -> tuple[object, ...]:
        if self._problem.goal.kind != GoalKind.USABLE or not is_open:
            return (is_open,)
        cpus = sorted({pod.kind.cpu for pod in self._workload})
        return outfit.model, int(np.searchsorted(cpus, cpu, side="right")), cards

    @property
    def _workload(self) -> TypicalPods:
        return self._problem.worth.workload

    def _curve(self, outfit: _Outfit, cpu: int, cards: int, is_open: bool) -> Array:
        """The most that each free part of such a card can be worth to the goal, in steps."""
        problem = self._problem
        steps = np.arange(_GRID + 1)
        worth = np.zeros(_GRID + 1)
        rate = float(problem.rates.max(initial=0.0))
        if not is_open:
            return worth
        if problem.goal.kind == GoalKind.FREE_GPUS:
            worth[-1] = rate
        elif problem.goal.kind == GoalKind.USABLE:
            type_ = self._board.columns.models[outfit.model].type
            for pod in self._workload:
                kind = pod.kind
                if kind.gpus and kind.cpu <= cpu and kind.gpus <= cards and kind.accepted([type_])[0]:
                    worth += np.where(steps * WHOLE >= kind.share * _GRID - WHOLE, pod.popularity * steps / _GRID, 0.0)
            worth *= rate
        return worth

    def _kind_weights(self) -> list[list[tuple[int, int, float]]]:
        """By outfit, the classes of pods that fit: number, steps of memory, and part of the pod on one card."""
        problem, board = self._problem, self._board
        columns = board.columns
        found: list[list[tuple[int, int, float]]] = []
        for outfit in self._outfits:
            at, row = np.argwhere((columns.model == outfit.model) & (columns.card_total[MEMORY] == outfit.memory))[0]
            states = board.now.take(np.array([int(row)]))
            states = replace(states, cards=columns.card_total[:, :, [int(row)]].copy())
            is_plain = columns.models[outfit.model].mode == PLAIN_MODE
            here: list[tuple[int, int, float]] = []
            for kind, task in enumerate(problem.kinds.tasks):
                requests = lasting_requests(task)
                count = sum(request.count for request in requests)
                for request in requests:
                    may, _ = board.trial.each(task, request, board.cards_of(states))
                    if not may[int(at), 0]:
                        continue
                    whole = (is_plain and not request.shares) or not outfit.memory
                    steps = _GRID if whole else int(request.memory_on(outfit.memory)) * _GRID // outfit.memory
                    if steps:
                        here.append((kind, steps, 1.0 / count))
            found.append(here)
        return found

    # -- bounds

    def lowest(self, prices: RoomPrices, known: float, steps: int, left: Callable[[], float]) -> float:
        """The lowest bound found in some steps from these prices; a plan that is worth `known` exists."""
        kinds, rows, gain = prices
        best, stale, reach = np.inf, 0, 1.0
        for _ in range(steps):
            found = self._of(RoomPrices(kinds, rows, gain))
            better = found.bound < best * (1.0 - _WORTHWHILE)
            best, stale = min(best, found.bound), 0 if better else stale + 1
            length = float(found.kinds @ found.kinds + found.rows @ found.rows)
            if best <= known * (1.0 + _WORTHWHILE) or length <= 0.0 or left() <= 0.0:
                break
            if stale == _PATIENCE:
                stale, reach = 0, reach / 2.0
            step = reach * max(found.bound - known, _WORTHWHILE * abs(known)) / length
            kinds = np.maximum(kinds - step * found.kinds, 0.0)
            rows = np.maximum(rows - step * found.rows, 0.0)
        return float(best)

    def _of(self, prices: RoomPrices) -> _Priced:
        """The bound for some prices, and how it changes with them."""
        problem = self._problem
        kinds = np.where(self._sized, prices.kinds, 0.0)
        limits = self._taken(prices.rows)
        paid = self._prices + limits + kinds[self._kind]
        earned = [_knapsack(here, kinds) for here in self._weights]
        best: dict[tuple[int, int], _Joined] = {}
        by_row = np.zeros(len(self._board.now))
        gone: dict[int, list[tuple[int, float]]] = {}
        come: dict[int, list[tuple[int, int]]] = {}
        for card in self._cards:
            key = card.outfit, card.curve
            if key not in best:
                best[key] = _joined(earned[card.outfit].most, prices.gain * self._curves[card.curve])
            joined = best[key]
            value, room, pods = _card_bound(card, joined.most, paid)
            by_row[card.row] += value
            if pods:
                gone.setdefault(card.row, []).extend(pods)
            filled = int(joined.filled[room])
            if filled:
                come.setdefault(card.row, []).append((card.outfit, filled))
        total = self._with_nodes(by_row, paid, gone, come, prices.gain) - prices.gain * self._now
        slope, taken = np.zeros(len(kinds)), np.zeros(len(prices.rows))
        for pod, part in chain.from_iterable(gone.values()):
            slope[self._kind[pod]] -= part
            for row, amount in problem.pods[pod].takes:
                taken[row] += amount * part
        for outfit, filled in chain.from_iterable(come.values()):
            slope += earned[outfit].pods_in(filled, len(kinds))
        for job in problem.waiting:
            value = job.gpus * problem.start_rate - float(sum(kinds[kind] for kind in job.kinds))
            if value > 0.0:
                total += value
                np.subtract.at(slope, list(job.kinds), 1.0)
        most = np.array([row.most for row in problem.rows])
        total += float(prices.rows @ most)
        if problem.goal.target is not None:
            # What is gained counts up to the target: in part as it comes, and for the rest as if it were all there.
            total += (1.0 - prices.gain) * problem.goal.target * float(problem.rates.max(initial=0.0))
        return _Priced(max(total, 0.0), np.where(self._sized, slope, 0.0), most - taken)

    def _taken(self, rows: Array) -> Array:
        """What each pod pays for limits."""
        return np.array([sum(rows[row] * amount for row, amount in pod.takes) for pod in self._problem.pods])

    def _with_nodes(
        self,
        by_row: Array,
        paid: Array,
        gone: dict[int, list[tuple[int, float]]],
        come: dict[int, list[tuple[int, int]]],
        gain: float,
    ) -> float:
        """What all nodes earn; one that is emptied earns its own worth instead of what its cards could."""
        problem = self._problem
        if problem.goal.kind == GoalKind.FREE_NODES:
            counts = self._board.now.pods
            for row in range(len(by_row)):
                pods = problem.by_row.get(row, ())
                emptied = gain * float(problem.rates[row]) - sum(float(paid[pod]) for pod in pods)
                if len(pods) == int(counts[row]) and emptied > by_row[row]:
                    by_row[row] = emptied
                    gone[row], come[row] = [(pod, 1.0) for pod in pods], []
        return float(by_row.sum())


class _Earned(NamedTuple):
    """What pods pay for each part of an empty card, in steps."""

    most: Array
    last: list[tuple[int, int, float]]
    """The pod that comes last into each part: class, steps, and part of the pod; 0 steps if a step stays empty."""

    def pods_in(self, steps: int, kinds: int) -> Array:
        """How many pods of each class fill so many steps."""
        counts = np.zeros(kinds)
        while steps > 0:
            kind, size, part = self.last[steps]
            if size:
                counts[kind] += part
            steps -= size or 1
        return counts


class _Joined(NamedTuple):
    """What each free part of a card can earn and be worth together, in steps."""

    most: Array
    filled: Array
    """How many steps of it pods fill."""


def _knapsack(here: list[tuple[int, int, float]], kinds: Array) -> _Earned:
    """The most that pods pay for each part of an empty card."""
    by_steps: dict[int, tuple[float, int, float]] = {}
    for kind, steps, part in here:
        price = float(kinds[kind]) * part
        if price > by_steps.get(steps, (0.0, 0, 0.0))[0]:
            by_steps[steps] = price, kind, part
    most, last = [0.0], [(0, 0, 0.0)]
    for at in range(1, _GRID + 1):
        best, chosen = most[-1], (0, 0, 0.0)
        for steps, (price, kind, part) in by_steps.items():
            if steps <= at and most[at - steps] + price > best:
                best, chosen = most[at - steps] + price, (kind, steps, part)
        most.append(best)
        last.append(chosen)
    return _Earned(np.array(most), last)


def _joined(earned: Array, curve: Array) -> _Joined:
    """The best division of each free part of a card between pods that come and what stays free."""
    filled = [int((earned[: at + 1] + curve[at::-1]).argmax()) for at in range(len(earned))]
    most = [float(earned[one] + curve[at - one]) for at, one in enumerate(filled)]
    return _Joined(np.array(most), np.array(filled))


def _card_bound(card: _Card, best: Array, paid: Array) -> tuple[float, int, list[tuple[int, float]]]:
    """What a card earns at best with some of its pods gone, the room that it has then, and those pods."""
    freed: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for number, (pod, steps, part) in enumerate(card.pods):
        price = float(paid[pod]) * part
        for before, (cost, gone) in list(freed.items()):
            known = freed.get(before + steps)
            if known is None or cost + price < known[0]:
                freed[before + steps] = cost + price, (*gone, number)
    options = [
        (float(best[min(card.free + steps, _GRID)]) - cost, steps, gone) for steps, (cost, gone) in freed.items()
    ]
    value, steps, gone = max(options, key=lambda one: one[0])
    return value, min(card.free + steps, _GRID), [(card.pods[at][0], card.pods[at][2]) for at in gone]
