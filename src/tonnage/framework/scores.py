"""Scores of all nodes for pods that no scoring plugin can tell apart.

Pod classes that differ only in where they fit share their scores, so a pod of a new shape rarely needs a full scoring.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.cluster.columns import Array, Columns, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.points import Key, NodeOrder, Reduce


class ScoreFunction:
    """A scoring callback over all nodes."""

    def __init__(
        self,
        plugin: str,
        evaluate: NodeOrder,
        key: Key,
        reduce: Reduce | None = None,
        fresh: bool = False,
        alike: float = 0.0,
        every_pod: bool = False,
    ) -> None:
        self.plugin = plugin
        self.evaluate = evaluate
        self.key = key
        self.reduce = reduce
        self.fresh = fresh or every_pod
        self.alike = alike
        """The score of every node when the function answers nothing; it does not change the order."""
        self.every_pod = every_pod
        """Whether it tells pods of one class apart, so that it is called for each pod."""
        self.late = self.fresh or reduce is not None
        """Whether the score of a node depends on other nodes, so that it is computed last."""


class Scores:
    """The scores of each function for each node, updated row by row."""

    __slots__ = ("_alone", "_functions", "by_function", "totals", "version")

    def __init__(self, functions: Sequence[ScoreFunction]) -> None:
        self._functions = [(number, function) for number, function in enumerate(functions) if not function.fresh]
        self._alone = len(functions) == 1 and not functions[0].late
        """Whether there is one function only, whose scores are the sum."""
        self.version = -1
        self.totals = np.zeros(0)
        """The sum of the scores that depend on the pods and the row alone."""
        self.by_function: list[Array | None] = [None] * len(functions)
        """Each function's scores; nothing if all nodes score alike."""

    def update(self, task: Task, columns: Columns, nodes: Nodes | None = None) -> None:
        """Score the nodes that changed, which are `nodes` if the caller knows them; the first time all nodes."""
        if self.version < 0:
            self.totals = np.zeros(columns.size)
            self._ask(task, Nodes(columns), slice(None))
        elif self.version < columns.clock:
            nodes = nodes or columns.nodes_since(self.version)
            self._ask(task, nodes, nodes.rows)
        self.version = columns.clock

    def _ask(self, task: Task, nodes: Nodes, rows: Array | slice | None) -> None:
        if self._alone:
            answer = self._functions[0][1].evaluate(task, nodes)
            self.totals[rows] = 0.0 if answer is None else answer
            self.by_function[0] = self.totals
            return
        totals: Array | None = None
        for number, function in self._functions:
            answer, known = function.evaluate(task, nodes), self.by_function[number]
            if known is None:
                if answer is None:
                    continue
                known = self.by_function[number] = np.zeros(len(self.totals))
            known[rows] = 0.0 if answer is None else answer
            if not function.late and answer is not None:
                totals = answer.astype(np.float64) if totals is None else totals + answer
        self.totals[rows] = 0.0 if totals is None else totals
