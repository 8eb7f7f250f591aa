"""The upper bound of allocated GPUs under any policy: the optimum of a linear relaxation, solved by HiGHS.

The relaxation may split pods over all nodes of a kind. To keep it tight, it has one row for every resource, kind of
node and *dual feasible function*: a function f such that numbers that sum to at most 1 still do so after f. Sizes
relative to a node or a card are such numbers, so their images must fit too. One such f says that no two pods share a
card if both take more than half of it.
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
"""The resolution of card shares."""


class MissingSolverError(Exception):
    """HiGHS is not installed."""


@dataclass(frozen=True, slots=True)
class EqualNodes:
    """Nodes that do not differ."""

    cpu: int
    """Millicores."""
    memory: int
    """MiB."""
    cards: int
    model: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class EqualPods:
    """Pods that do not differ."""

    cpu: int
    """Millicores."""
    memory: int
    """MiB."""
    gpus: int
    share: float = 1.0
    """The part of each card, above 0 and up to 1."""
    models: frozenset[str] = frozenset()
    """Accepted card models; empty for all."""
    count: int = 1

    def goes_on(self, node: EqualNodes) -> bool:
        """Whether an empty node has room."""
        suits = not self.models or node.model in self.models
        return suits and self.cpu <= node.cpu and self.memory <= node.memory and self.gpus <= node.cards


Kind = TypeVar("Kind", EqualNodes, EqualPods)


def gpu_bound(nodes: Sequence[EqualNodes], pods: Sequence[EqualPods]) -> float:
    """The most GPUs that any policy can allocate to the pods."""
    offered = _merged([node for node in nodes if node.cards > 0])
    wanted = _merged([pod for pod in pods if pod.gpus > 0 and any(pod.goes_on(node) for node in offered)])
    return _maximum(_relaxation(offered, wanted)) if wanted else 0.0


def _merged(kinds: Sequence[Kind]) -> list[Kind]:
    """Equal kinds merged, with their counts summed."""
    counts: Counter[Kind] = Counter()
    for kind in kinds:
        counts[replace(kind, count=1)] += kind.count
    return [replace(kind, count=count) for kind, count in counts.items()]


# -- dual feasible functions, of sizes given as numerator and denominator so that they are exact


def _as_it_is(part: Integers, whole: int) -> Floats:
    return part / whole


def _extremes(part: Integers, whole: int, twentieths: int) -> Floats:
    """Sizes below `twentieths` / 20 become 0, and those that leave less than that beside them become 1."""
    large, small = 20 * part > (20 - twentieths) * whole, 20 * part < twentieths * whole
    return np.where(large, 1.0, np.where(small, 0.0, part / whole))


def _steps(part: Integers, whole: int, most: int) -> Floats:
    """A size x stays x if (k + 1) x is an integer, and becomes ⌊(k + 1) x⌋ / k otherwise; k is `most`."""
    steps, rest = np.divmod((most + 1) * part, whole)
    return np.where(rest == 0, part / whole, steps / most)


FUNCTIONS: tuple[Callable[[Integers, int], Floats], ...] = (
    _as_it_is,
    *(partial(_steps, most=most) for most in range(1, 6)),
    *(partial(_extremes, twentieths=twentieths) for twentieths in range(1, 11)),
)


# -- the linear program


@dataclass(slots=True)
class _LinearProgram:
    """A linear program: maximize the value of the columns; each row's weighted sum stays below its limit."""

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
    """A column for every kind of pod on every kind of node that it fits: the number of such pods there."""
    fits = np.array([[pod.goes_on(node) for node in nodes] for pod in pods])
    column = np.where(fits, np.cumsum(fits).reshape(fits.shape) - 1, -1)
    demand = np.array([pod.gpus * pod.share for pod in pods])
    program = _LinearProgram(np.broadcast_to(demand[:, None], fits.shape)[fits])
    for i, pod in enumerate(pods):
        here = column[i, fits[i]]
        program.limit(here, np.ones(len(here)), pod.count)
    for j, node in enumerate(nodes):
        here = fits[:, j]
        for parts, whole, times, limit in _sizes(node, [pod for pod, fit in zip(pods, here, strict=True) if fit]):
            for function in FUNCTIONS:
                program.limit(column[here, j], function(parts, max(whole, 1)) * times, limit)
    return program


def _sizes(node: EqualNodes, pods: list[EqualPods]) -> Iterator[tuple[Integers, int, Integers, int]]:
    """Per resource: the part that each pod takes, the whole, the number of such parts, and of such wholes."""
    # Shares are rounded down, which keeps the bound valid; the small addition corrects binary fractions.
    shares = np.array([int(pod.share * SHARES + 1e-3) for pod in pods], np.int64)
    gpus = np.array([pod.gpus for pod in pods], np.int64)
    once = np.ones(len(pods), np.int64)
    yield np.array([pod.cpu for pod in pods], np.int64), node.cpu, once, node.count
    yield np.array([pod.memory for pod in pods], np.int64), node.memory, once, node.count
    yield shares * gpus, SHARES * node.cards, once, node.count
    yield shares, SHARES, gpus, node.cards * node.count


def _maximum(program: _LinearProgram) -> float:
    try:
        import highspy
    except ImportError as error:
        raise MissingSolverError("the upper bound needs HiGHS: pip install 'tonnage[simulate]'") from error
    model = highspy.HighsLp()
    model.sense_ = highspy.ObjSense.kMaximize
    model.num_col_, model.num_row_ = len(program.worth), len(program.limits)
    model.col_cost_ = program.worth
    model.col_lower_ = np.zeros(model.num_col_)
    model.col_upper_ = np.full(model.num_col_, highspy.kHighsInf)
    model.row_lower_ = np.full(model.num_row_, -highspy.kHighsInf)
    model.row_upper_ = np.array(program.limits, np.float64)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *map(len, program.columns)])
    model.a_matrix_.index_ = np.concatenate(program.columns)
    model.a_matrix_.value_ = np.concatenate(program.weights)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise ArithmeticError(f"HiGHS found no upper bound: {solver.modelStatusToString(solver.getModelStatus())}")
    return float(solver.getInfo().objective_function_value)
