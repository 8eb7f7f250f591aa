"""The choice among patterns as a model for HiGHS: at most one pattern per node, and room for every pod that leaves.

Its linear relaxation gives prices of room, by which better patterns are made; its integer solution is a plan.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tonnage.cluster.columns import Array
from tonnage.plan.defrag.patterns import NodePattern, RoomPrices
from tonnage.plan.defrag.problem import JobStart, PlanProblem, PodMove, Solution


class MissingHighsError(Exception):
    """HiGHS is not installed."""


class Relaxed(NamedTuple):
    """The solution of the linear relaxation."""

    worth: float
    prices: RoomPrices
    bars: Array
    """What the room of each node earns: a new pattern must be worth more."""


class MasterProblem:
    """The model over a growing list of patterns."""

    def __init__(self, problem: PlanProblem) -> None:
        try:
            import highspy
        except ImportError as error:
            raise MissingHighsError("the best plan needs HiGHS: pip install 'tonnage[simulate]'") from error
        self._highs: Any = highspy
        self._problem = problem
        self.patterns: list[NodePattern] = []
        self._known: set[tuple[object, ...]] = set()
        self._nodes = len(problem.board.now)
        self._kinds = len(problem.kinds.tasks)

    def add(self, patterns: Sequence[NodePattern]) -> int:
        """Add patterns that are not known yet; how many they were."""
        before = len(self.patterns)
        for pattern in patterns:
            key = pattern.row, pattern.leaving, pattern.coming
            if key not in self._known:
                self._known.add(key)
                self.patterns.append(pattern)
        return len(self.patterns) - before

    # -- rows: nodes, classes, limits, and the target
    #    columns: patterns, jobs that start, and the gain that counts if there is a target

    def _model(self, is_whole: bool) -> Any:
        highs, problem = self._highs, self._problem
        jobs, has_target = problem.waiting, problem.goal.target is not None
        count = len(self.patterns) + len(jobs) + has_target
        inf = highs.kHighsInf
        rate = float(problem.rates.max(initial=0.0))
        worth = [(-one.price if has_target else one.worth) for one in self.patterns]
        worth += [job.gpus * problem.start_rate for job in jobs] + [1.0] * has_target
        model = highs.HighsLp()
        model.sense_ = highs.ObjSense.kMaximize
        kinds, limits = self._nodes, self._nodes + self._kinds
        target = limits + len(problem.rows)
        model.num_col_, model.num_row_ = count, target + has_target
        model.col_cost_ = np.array(worth, np.float64)
        model.col_lower_ = np.zeros(count)
        upper = np.ones(count)
        if has_target:
            upper[-1] = float(problem.goal.target or 0.0) * rate
        model.col_upper_ = upper
        lower = np.full(model.num_row_, -inf)
        most = np.full(model.num_row_, inf)
        most[: self._nodes] = 1.0
        lower[kinds:limits] = 0.0
        most[limits:target] = [row.most for row in problem.rows]
        if has_target:
            lower[target] = 0.0
        model.row_lower_, model.row_upper_ = lower, most
        starts, index, value = [0], [], []
        for entries in self._entries(kinds, limits, target if has_target else None):
            index += [row for row, _ in entries]
            value += [amount for _, amount in entries]
            starts.append(len(index))
        model.a_matrix_.format_ = highs.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.array(starts)
        model.a_matrix_.index_ = np.array(index)
        model.a_matrix_.value_ = np.array(value, np.float64)
        if is_whole:
            kind = [highs.HighsVarType.kInteger] * count
            if has_target:
                kind[-1] = highs.HighsVarType.kContinuous
            model.integrality_ = kind
        return model

    def _entries(self, kinds: int, limits: int, target: int | None) -> list[list[tuple[int, float]]]:
        """What each column takes of each row."""
        problem = self._problem
        columns: list[list[tuple[int, float]]] = []
        for pattern in self.patterns:
            entries: dict[int, float] = {pattern.row: 1.0}
            for pod in pattern.leaving:
                one = problem.pods[pod]
                entries[kinds + one.kind] = entries.get(kinds + one.kind, 0.0) - 1.0
                for row, amount in one.takes:
                    entries[limits + row] = entries.get(limits + row, 0.0) + amount
            for kind, number in pattern.coming:
                entries[kinds + kind] = entries.get(kinds + kind, 0.0) + number
            if target is not None:
                entries[target] = pattern.value
            columns.append([one for one in entries.items() if one[1]])
        for job in problem.waiting:
            needs: dict[int, float] = {}
            for kind in job.kinds:
                needs[kinds + kind] = needs.get(kinds + kind, 0.0) - 1.0
            columns.append(list(needs.items()))
        if target is not None:
            columns.append([(target, -1.0)])
        return columns

    def _solver(self, seconds: float) -> Any:
        solver = self._highs.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("time_limit", max(seconds, 0.1))
        return solver

    def relax(self, seconds: float) -> Relaxed | None:
        """The linear relaxation; nothing if time runs out before it is solved."""
        solver = self._solver(seconds)
        solver.passModel(self._model(False))
        solver.run()
        if solver.getModelStatus() != self._highs.HighsModelStatus.kOptimal:
            return None
        dual = np.array(solver.getSolution().row_dual)
        kinds, limits = self._nodes, self._nodes + self._kinds
        rows = np.maximum(dual[limits : limits + len(self._problem.rows)], 0.0)
        gain = 1.0 if self._problem.goal.target is None else min(max(-float(dual[-1]), 0.0), 1.0)
        prices = RoomPrices(np.maximum(-dual[kinds:limits], 0.0), rows, gain)
        worth = float(solver.getInfo().objective_function_value)
        return Relaxed(worth, prices, np.maximum(dual[: self._nodes], 0.0))

    def choose(self, start: Sequence[NodePattern], started: Sequence[int], seconds: float) -> Solution | None:
        """The best integer solution within some seconds, from one that is known; nothing if none is found."""
        solver = self._solver(seconds)
        solver.passModel(self._model(True))
        known = {(one.row, one.leaving, one.coming) for one in start}
        first = self._highs.HighsSolution()
        values = [float((one.row, one.leaving, one.coming) in known) for one in self.patterns]
        values += [float(number in started) for number in range(len(self._problem.waiting))]
        if self._problem.goal.target is None:
            first.col_value = values
            solver.setSolution(first)
        solver.run()
        if solver.getInfo().primal_solution_status != self._highs.SolutionStatus.kSolutionStatusFeasible:
            return None
        return self._solution(np.array(solver.getSolution().col_value) > 0.5)

    def _solution(self, chosen: Array) -> Solution:
        """Pods that leave, matched with places for their classes: on their own node if it takes one, then in order."""
        problem = self._problem
        patterns = [self.patterns[number] for number in chosen[: len(self.patterns)].nonzero()[0].tolist()]
        places: dict[int, list[int]] = {}
        for pattern in patterns:
            for kind, number in pattern.coming:
                places.setdefault(kind, []).extend([pattern.row] * number)
        # The nodes that gain most per price are emptied first, so that every beginning of the plan is a good one.
        patterns.sort(key=lambda one: (-one.value / max(one.price, 1e-9), one.row))
        moves: list[PodMove] = []
        for pattern in patterns:
            for pod in pattern.leaving:
                free = places.get(problem.pods[pod].kind, [])
                own = problem.pods[pod].row
                if free:
                    moves.append(PodMove(pod, free.pop(free.index(own) if own in free else -1)))
        starts: list[JobStart] = []
        for number, job in enumerate(problem.waiting):
            if chosen[len(self.patterns) + number]:
                rows = [places[kind].pop() if places.get(kind) else -1 for kind in job.kinds]
                if min(rows) >= 0:
                    starts.append(JobStart(number, tuple(rows)))
        return Solution(tuple(moves), tuple(starts))
