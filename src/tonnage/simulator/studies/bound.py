"""How many GPUs could be given out at most, whoever decides: the optimum of a linear relaxation, found by HiGHS.

Pods may be cut into pieces and spread over all nodes of a kind. What keeps that from promising too much is one row for
every resource, kind of node and *dual feasible function*: a function f for which numbers that sum to at most 1 still
do so after f. Sizes relative to a node or a card are such numbers, so what f makes of them must fit too. One such f
says that of pods that take more than half a card no two share one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SHARES = 1_000_000
"""Parts of a card that shares are counted in."""


class MissingSolverError(Exception):
    """HiGHS is not installed."""


@dataclass(frozen=True, slots=True)
class EqualNodes:
    """Nodes that do not differ."""

    cpu: int
    """Thousandths of a processor."""
    memory: int
    """MiB."""
    cards: int
    model: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class EqualPods:
    """Pods that do not differ."""

    cpu: int
    """Thousandths of a processor."""
    memory: int
    """MiB."""
    gpus: int
    share: float = 1.0
    """Of each card, above 0 and up to 1."""
    models: frozenset[str] = frozenset()
    """Models of cards that will do; empty if all will."""
    count: int = 1

    def goes_on(self, node: EqualNodes) -> bool:
        """Whether a node that is empty has room."""
        suits = not self.models or node.model in self.models
        return suits and self.cpu <= node.cpu and self.memory <= node.memory and self.gpus <= node.cards


Kind = TypeVar("Kind", EqualNodes, EqualPods)


def gpu_bound(nodes: Sequence[EqualNodes], pods: Sequence[EqualPods]) -> float:
    """GPUs that no policy can give out more of, to whichever of the pods it chooses."""
    offered = _merged([node for node in nodes if node.cards > 0])
    wanted = _merged([pod for pod in pods if pod.gpus > 0 and any(pod.goes_on(node) for node in offered)])
    return _maximum(_relaxation(offered, wanted)) if wanted else 0.0


def _merged(kinds: Sequence[Kind]) -> list[Kind]:
    """Equal kinds as one, with their counts summed."""
    counts: Counter[Kind] = Counter()
    for kind in kinds:
        counts[replace(kind, count=1)] += kind.count
    return [replace(kind, count=count) for kind, count in counts.items()]


# -- dual feasible functions, of sizes given as numerator and denominator so that they are exact


def _as_it_is(part: Integers, whole: int) -> Floats:
    return part / whole


def _extremes(part: Integers, whole: int, twentieths: int) -> Floats:
    """Small sizes count nothing and large ones all, where no large one leaves room for more than small ones."""
    large, small = 20 * part > (20 - twentieths) * whole, 20 * part < twentieths * whole
    return np.where(large, 1.0, np.where(small, 0.0, part / whole))


def _steps(part: Integers, whole: int, most: int) -> Floats:
    """Sizes of which at most so many fit count one part in so many; sizes that divide the whole stay as they are."""
    steps, rest = np.divmod((most + 1) * part, whole)
    return np.where(rest == 0, part / whole, steps / most)


FUNCTIONS: tuple[Callable[[Integers, int], Floats], ...] = (
    _as_it_is,
    *(partial(_steps, most=most) for most in range(1, 6)),
    *(partial(_extremes, twentieths=twentieths) for twentieths in range(1, 11)),
)


# -- the linear programme


@dataclass(slots=True)
class _LinearProgram:
    """Maximise what the columns are worth; each row's weighted sum of columns stays below its limit."""

    worth: Floats
    limits: list[int] = field(default_factory=list)
    columns: list[Integers] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)

    def limit(self, columns: Integers, weights: Floats, limit: int) -> None:
        counts = weights > 0
        if counts.any():
            self.columns.append(columns[counts])
            self.weights.append(weights[counts])
            self.limits.append(limit)


def _relaxation(nodes: list[EqualNodes], pods: list[EqualPods]) -> _LinearProgram:
    """A column for every kind of pod on every kind of node it goes on: how many of the pods are there."""
    fits = np.array([[pod.goes_on(node) for node in nodes] for pod in pods])
    column = np.where(fits, np.cumsum(fits).reshape(fits.shape) - 1, -1)
    demand = np.array([pod.gpus * pod.share for pod in pods])
    programme = _LinearProgram(np.broadcast_to(demand[:, None], fits.shape)[fits])
    for i, pod in enumerate(pods):
        here = column[i, fits[i]]
        programme.limit(here, np.ones(len(here)), pod.count)
    for j, node in enumerate(nodes):
        here = fits[:, j]
        for parts, whole, times, limit in _sizes(node, [pod for pod, fit in zip(pods, here, strict=True) if fit]):
            for function in FUNCTIONS:
                programme.limit(column[here, j], function(parts, max(whole, 1)) * times, limit)
    return programme


def _sizes(node: EqualNodes, pods: list[EqualPods]) -> Iterator[tuple[Integers, int, Integers, int]]:
    """Per resource: what each pod takes at a time, of how much, how many times, and how often there is as much."""
    # Shares are rounded down, which keeps the bound above the truth; the little that is added is for binary fractions.
    shares = np.array([int(pod.share * SHARES + 1e-3) for pod in pods], np.int64)
    gpus = np.array([pod.gpus for pod in pods], np.int64)
    once = np.ones(len(pods), np.int64)
    yield np.array([pod.cpu for pod in pods], np.int64), node.cpu, once, node.count
    yield np.array([pod.memory for pod in pods], np.int64), node.memory, once, node.count
    yield shares * gpus, SHARES * node.cards, once, node.count
    yield shares, SHARES, gpus, node.cards * node.count


def _maximum(programme: _LinearProgram) -> float:
    try:
        import highspy
    except ImportError as error:
        raise MissingSolverError("the upper bound needs HiGHS: pip install 'tonnage[simulate]'") from error
    model = highspy.HighsLp()
    model.sense_ = highspy.ObjSense.kMaximize
    model.num_col_, model.num_row_ = len(programme.worth), len(programme.limits)
    model.col_cost_ = programme.worth
    model.col_lower_ = np.zeros(model.num_col_)
    model.col_upper_ = np.full(model.num_col_, highspy.kHighsInf)
    model.row_lower_ = np.full(model.num_row_, -highspy.kHighsInf)
    model.row_upper_ = np.array(programme.limits, np.float64)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *map(len, programme.columns)])
    model.a_matrix_.index_ = np.concatenate(programme.columns)
    model.a_matrix_.value_ = np.concatenate(programme.weights)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise ArithmeticError(f"HiGHS found no upper bound: {solver.modelStatusToString(solver.getModelStatus())}")
    return float(solver.getInfo().objective_function_value)
