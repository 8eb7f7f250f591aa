"""The search for a better plan than the greedy one, and for the bound that says how good a plan is.

Patterns of nodes are added as long as the prices of room ask for better ones; then HiGHS chooses among them. The bound
holds whatever patterns were made, because it comes from prices alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tonnage.plan.defrag.bound import DualBound
from tonnage.plan.defrag.master import MasterProblem, MissingHighsError
from tonnage.plan.defrag.patterns import Patterns
from tonnage.plan.defrag.problem import PlanProblem, Solution

_MOST_PATTERNS = 20_000
"""Up to so many patterns all of them are made, and the solver's answer is the best plan."""
_MOST_ROUNDS = 12
_MOST_KINDS = 48
_FOR_ROUNDS = 0.5
"""The part of the time that is left for which patterns are added."""
_BOUND_STEPS = 80


class Searched(NamedTuple):
    """What a search found."""

    solution: Solution | None
    bound: float | None
    note: str


def search(problem: PlanProblem, greedy: Solution, left: Callable[[], float]) -> Searched:
    """A plan of the solver's, and the bound."""
    bounds, patterns = DualBound(problem), Patterns(problem)
    known = patterns.of_solution(greedy)
    worth = sum(pattern.worth for pattern in known)
    worth += sum(problem.waiting[start.job].gpus for start in greedy.starts) * problem.start_rate
    prices, bars = patterns.first_prices(), np.zeros(len(problem.board.now))
    if left() <= 0.0:
        return Searched(None, bounds.lowest(prices, worth, 1, left), "")
    try:
        master = MasterProblem(problem)
    except MissingHighsError as error:
        return Searched(None, bounds.lowest(prices, worth, _BOUND_STEPS, left), str(error))
    master.add(known)
    kinds = _worthwhile(problem)
    until = left() * (1.0 - _FOR_ROUNDS)
    note = ""
    every = patterns.all_of_them(_MOST_PATTERNS)
    if every is not None:
        master.add(every)
        relaxed = master.relax(left())
        prices = prices if relaxed is None else relaxed.prices
    for _ in range(_MOST_ROUNDS if every is None else 0):
        if left() < until:
            note = "time ran out before all patterns were weighed"
            break
        added = master.add(patterns.priced(prices, bars, kinds))
        relaxed = master.relax(left()) if added else None
        if relaxed is None:
            break
        prices, bars = relaxed.prices, relaxed.bars
    bound = bounds.lowest(prices, worth, _BOUND_STEPS, lambda: left() - until / 2)
    solution = master.choose(known, [start.job for start in greedy.starts], left())
    return Searched(solution, bound, note)


def _worthwhile(problem: PlanProblem) -> list[int]:
    """The classes of pods that patterns place: those of most movable pods, and of waiting ones."""
    counts = np.zeros(len(problem.kinds.tasks))
    for pod in problem.pods:
        counts[pod.kind] += 1
    waiting = sorted({kind for job in problem.waiting for kind in job.kinds})
    common = [kind for kind in np.argsort(-counts, kind="stable").tolist() if counts[kind]]
    return [*waiting, *[kind for kind in common if kind not in waiting]][: _MOST_KINDS + len(waiting)]
