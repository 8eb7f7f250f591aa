"""The greedy plan: the release that brings the most for its price, then the next, as long as one pays.

A release is tried in full: its pods go, each to the node where the goal loses least, and what that brings is counted.
The estimate that orders releases is optimistic, so that most are tried only once.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import Array
from tonnage.plan.defrag.problem import JobStart, PlanProblem, PodMove, Solution
from tonnage.plan.defrag.releases import releases
from tonnage.plan.defrag.states import States

_SMALL = 1e-9
_TIE = 1e-7
_SLACK = 0.98
"""A release that brings this part of the next one's estimate is taken before the next one is looked at."""


class _Column(NamedTuple):
    """What one more pod of a class would do on each node."""

    loss: Array
    """What the goal loses by it, in value; infinite where it does not fit."""
    seen: Array
    """The version of each node that this is about."""


class _Undo(NamedTuple):
    """A node before a step."""

    row: int
    states: States
    worth: float
    version: int


class Packing:
    """Nodes with pods that come and go, what each node is worth, and what one more pod of a class would cost there."""

    def __init__(self, problem: PlanProblem) -> None:
        self._problem, self._board = problem, problem.board
        self.states = problem.board.now.copy()
        self.version = np.ones(len(self.states), np.int64)
        """A number of each node's state; equal numbers mean equal states."""
        self._clock = 1
        self.worth = problem.worth.of(self.states) * problem.rates
        """The value of each node to the goal."""
        self._columns: dict[int, _Column] = {}
        self._log: list[_Undo] = []

    @property
    def mark(self) -> int:
        """A mark to undo back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Undo all steps after the mark."""
        while len(self._log) > mark:
            row, states, worth, version = self._log.pop()
            self.states.put(np.array([row]), states)
            self.worth[row] = worth
            # What was found out about the node as it was before still holds.
            self.version[row] = version

    def remove(self, row: int, pods: Sequence[int]) -> None:
        """Take pods off a node."""
        states = self.states.take(np.array([row]))
        holders = [[self._problem.pods[pod].holder for pod in pods]]
        self._put(row, self._board.without(states, holders))

    def add(self, kind: int, row: int) -> bool:
        """Put one more pod of a class on a node; whether it fits."""
        kinds = self._problem.kinds
        states = self.states.take(np.array([row]))
        fits, after = self._board.added(states, kinds.tasks[kind], kinds.allowed[kind])
        if fits[0]:
            self._put(row, after)
        return bool(fits[0])

    def best(self, kind: int) -> tuple[int, float]:
        """The node where one more pod of a class costs the goal least, and what it costs; -1 if there is none."""
        loss = self.column(kind).loss
        row = int(loss.argmin()) if len(loss) else -1
        return (row, float(loss[row])) if row >= 0 and np.isfinite(loss[row]) else (-1, np.inf)

    def column(self, kind: int) -> _Column:
        """What one more pod of a class would do on each node, as the nodes are now."""
        known = self._columns.get(kind)
        size = len(self.states)
        if known is None:
            known = self._columns[kind] = _Column(np.zeros(size), np.zeros(size, np.int64))
        stale = (known.seen != self.version).nonzero()[0]
        if len(stale):
            known.loss[stale] = self.loss_of(kind, self.states.take(stale), self.worth[stale])
            known.seen[stale] = self.version[stale]
        return known

    def loss_of(self, kind: int, states: States, worth: Array) -> Array:
        """What the goal loses by one more pod of a class in states of some worth; infinite where it does not fit."""
        problem = self._problem
        fits, after = self._board.added(states, problem.kinds.tasks[kind], problem.kinds.allowed[kind])
        lost = worth - problem.worth.of(after) * problem.rates.take(states.rows)
        # Among equals the fullest node takes the pod, so that emptier ones can still be emptied.
        return np.where(fits, lost + _TIE * (1.0 - self._fullness(after)), np.inf)

    def _fullness(self, states: States) -> Array:
        shares = self._board.shares(states)
        cards = np.maximum((self._board.models(states) > 0).sum(axis=0), 1)
        result: Array = 1.0 - shares.sum(axis=0) / 1e6 / cards
        return result

    def _put(self, row: int, states: States) -> None:
        before = self.states.take(np.array([row]))
        self._log.append(_Undo(row, before, float(self.worth[row]), int(self.version[row])))
        self.states.put(np.array([row]), states)
        self.worth[row] = self._problem.worth.of(states)[0] * self._problem.rates[row]
        self._clock += 1
        self.version[row] = self._clock


class _Estimate(NamedTuple):
    """A release that may be worth its price."""

    rank: float
    """Its value per price, negative, so that the best sorts first."""
    row: int
    pods: tuple[int, ...]
    version: int
    """The state of the node that this is about."""


class RoomBounds(NamedTuple):
    """How far room for one waiting pod is looked for."""

    nodes: int
    """On how many nodes."""
    pods: int
    """How many pods of a node are enough at most."""
    tries: int
    """For how many sets of pods other places are looked for."""


class Greedy:
    """Builds a plan step by step."""

    def __init__(self, problem: PlanProblem, is_over: Callable[[], bool], bounds: RoomBounds | None = None) -> None:
        self._problem, self._is_over, self._bounds = problem, is_over, bounds
        self.packing = Packing(problem)
        self._gone: set[int] = set()
        self._taken = np.zeros(len(problem.rows))
        self._most = np.array([row.most for row in problem.rows])
        self.moves: list[PodMove] = []
        self.starts: list[JobStart] = []
        self.stopped_early = False

    def run(self) -> Solution:
        """The plan; if time runs out, what is found so far."""
        if self._problem.waiting:
            self._start_jobs()
        else:
            self._release()
        return Solution(tuple(self.moves), tuple(self.starts))

    # -- room for its own sake

    def _release(self) -> None:
        problem = self._problem
        begin, gained = float(self.packing.worth.sum()), 0.0
        target = problem.goal.target
        enough = np.inf if target is None else target * float(problem.rates.max(initial=0.0)) - _SMALL
        heap: list[_Estimate] = []
        self._push(heap, sorted(problem.by_row))
        while heap and gained < enough:
            if self._is_over():
                self.stopped_early = True
                return
            _, row, pods, version = heapq.heappop(heap)
            if version != self.packing.version[row] or not self._is_allowed(pods):
                continue
            bar = -heap[0].rank if heap else 0.0
            mark, known = self.packing.mark, len(self.moves)
            before = float(self.packing.worth.sum())
            price = problem.price([PodMove(pod, row) for pod in pods])
            if not self._rehouse(row, pods):
                self.packing.undo(mark)
                continue
            value = float(self.packing.worth.sum()) - before
            ratio = value / max(price, _SMALL)
            if value - price <= _SMALL or ratio < _SLACK * bar:
                self._drop(mark, known)
                if value - price > _SMALL:
                    heapq.heappush(heap, _Estimate(-ratio, row, pods, version))
                continue
            self._accept(pods)
            gained = float(self.packing.worth.sum()) - begin
            self._push(heap, sorted({row, *(move.row for move in self.moves[known:])} & problem.by_row.keys()))

    def _push(self, heap: list[_Estimate], rows: Sequence[int]) -> None:
        """Estimate all releases of some nodes: what is freed, less what the goal loses where their pods would go."""
        problem, packing = self._problem, self.packing
        gone = frozenset(self._gone)
        sets = [(row, pods) for row in rows for pods in releases(problem, row, gone)]
        if not sets:
            return
        at = np.array([row for row, _ in sets])
        holders = [[problem.pods[pod].holder for pod in pods] for _, pods in sets]
        after = problem.board.without(packing.states.take(at), holders)
        worth = problem.worth.of(after) * problem.rates.take(at)
        net = worth - packing.worth.take(at)
        by_kind: dict[int, list[tuple[int, int]]] = {}
        for number, (_, pods) in enumerate(sets):
            for kind, count in Counter(problem.pods[pod].kind for pod in pods).items():
                by_kind.setdefault(kind, []).append((number, count))
        for kind, needed in sorted(by_kind.items()):
            which = np.array([number for number, _ in needed])
            # A pod may also come back to its own node, to another card.
            own = packing.loss_of(kind, after.take(which), worth[which])
            net[which] -= np.minimum(own, packing.best(kind)[1]) * np.array([count for _, count in needed])
        for (row, pods), value in zip(sets, net.tolist(), strict=True):
            price = problem.price([PodMove(pod, row) for pod in pods])
            if value > price:
                ratio = value / max(price, _SMALL)
                heapq.heappush(heap, _Estimate(-ratio, row, pods, int(packing.version[row])))

    def _rehouse(self, row: int, pods: Sequence[int]) -> bool:
        """Move pods from their node to the best others; whether all found a place."""
        self.packing.remove(row, pods)
        return self._place(pods)

    def _place(self, pods: Sequence[int]) -> bool:
        """Put pods that have left their nodes on the best others, the largest first; whether all found a place."""
        problem, known = self._problem, len(self.moves)
        for pod in sorted(pods, key=lambda one: (-problem.pods[one].gpus, problem.pods[one].task.key)):
            kind = problem.pods[pod].kind
            to, _ = self.packing.best(kind)
            if to < 0 or not self.packing.add(kind, to):
                del self.moves[known:]
                return False
            self.moves.append(PodMove(pod, to))
        return True

    def _drop(self, mark: int, known: int) -> None:
        self.packing.undo(mark)
        del self.moves[known:]

    def _is_allowed(self, pods: Sequence[int]) -> bool:
        taken = self._taken.copy()
        for pod in pods:
            for row, amount in self._problem.pods[pod].takes:
                taken[row] += amount
        return bool((taken <= self._most + _SMALL).all())

    def _accept(self, pods: Sequence[int]) -> None:
        self._gone.update(pods)
        for pod in pods:
            for row, amount in self._problem.pods[pod].takes:
                self._taken[row] += amount

    # -- room for jobs that wait

    def _start_jobs(self) -> None:
        """Start jobs one after the other, each whole or not at all, those first that ask for less."""
        problem = self._problem
        order = sorted(range(len(problem.waiting)), key=lambda at: (problem.waiting[at].gpus, at))
        for number in order:
            if self._is_over():
                self.stopped_early = True
                return
            self.start(number, problem.waiting[number].gpus * problem.start_rate)

    def start(self, number: int, most: float) -> bool:
        """Start a waiting job if moves that cost no more than that make room for it; whether they do."""
        mark, known, gone = self.packing.mark, len(self.moves), set(self._gone)
        taken = self._taken.copy()
        rows: list[int] = []
        for kind in self._problem.waiting[number].kinds:
            rows.append(self._make_room(kind))
            if rows[-1] < 0:
                break
        price = self._problem.price(self.moves[known:])
        if min(rows, default=-1) < 0 or price > most:
            self._drop(mark, known)
            self._gone, self._taken = gone, taken
            return False
        self.starts.append(JobStart(number, tuple(rows)))
        return True

    def _make_room(self, kind: int) -> int:
        """Put one waiting pod somewhere, moving others as cheaply as possible; the row, or -1."""
        problem, packing = self._problem, self.packing
        row, _ = packing.best(kind)
        if row >= 0:
            packing.add(kind, row)
            return row
        gone = frozenset(self._gone)
        allowed = problem.kinds.allowed[kind]
        sets = [
            (row, pods)
            for row in self._rows_for(kind)
            for pods in releases(problem, row, gone)
            if self._is_allowed(pods)
        ]
        if not sets:
            return -1
        at = np.array([row for row, _ in sets])
        after = problem.board.without(
            packing.states.take(at), [[problem.pods[pod].holder for pod in pods] for _, pods in sets]
        )
        fits, _ = problem.board.added(after, problem.kinds.tasks[kind], allowed)
        prices = [problem.price([PodMove(pod, row) for pod in pods]) for row, pods in sets]
        cheapest = sorted(fits.nonzero()[0].tolist(), key=lambda one: (prices[one], one))
        for number in cheapest if self._bounds is None else cheapest[: self._bounds.tries]:
            row, pods = sets[number]
            mark, known = packing.mark, len(self.moves)
            packing.remove(row, pods)
            if packing.add(kind, row) and self._place(pods):
                self._accept(pods)
                return row
            self._drop(mark, known)
        return -1

    def _rows_for(self, kind: int) -> list[int]:
        """The nodes on which pods might make way for one of a class; if they are too many, the most promising.

        These are the ones whose cheapest pods are enough at the lowest price; pods with cards count first.
        """
        problem, packing, bounds = self._problem, self.packing, self._bounds
        task, allowed = problem.kinds.tasks[kind], problem.kinds.allowed[kind]
        rows = [row for row in sorted(problem.by_row) if allowed[row]]
        if bounds is None or len(rows) <= bounds.nodes:
            return rows
        pods = {row: [pod for pod in problem.by_row[row] if pod not in self._gone] for row in rows}
        for here in pods.values():
            here.sort(key=lambda pod: (not problem.pods[pod].holder.positions, problem.pods[pod].price, pod))
        enough: list[tuple[float, int]] = []
        left = rows
        for count in range(1, bounds.pods + 1):
            left = [row for row in left if len(pods[row]) >= count]
            if not left:
                break
            holders = [[problem.pods[pod].holder for pod in pods[row][:count]] for row in left]
            after = problem.board.without(packing.states.take(np.array(left)), holders)
            fits, _ = problem.board.added(after, task, allowed)
            enough += [
                (problem.price([PodMove(pod, row) for pod in pods[row][:count]]), row)
                for row, is_enough in zip(left, fits.tolist(), strict=True)
                if is_enough
            ]
            left = [row for row, is_enough in zip(left, fits.tolist(), strict=True) if not is_enough]
        return sorted([row for _, row in sorted(enough)[: bounds.nodes]])
