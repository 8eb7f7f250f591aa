"""The scores of nodes for pods that no scoring plugin can tell apart.

Classes of pods that differ only in where they fit share them; so a pod of a new shape is seldom scored from nothing.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.cluster.columns import Array, Columns, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.points import Key, NodeOrder, Reduce


class ScoreFunction:
    """A score over nodes."""

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
        """What every node scores where the function says nothing; it does not change their order."""
        self.every_pod = every_pod
        """Whether it tells pods of one class apart, so that it is asked for each of them."""
        self.late = self.fresh or reduce is not None
        """Whether the score is known only once all other nodes are."""


class Scores:
    """What the functions said of each node; brought up to date row by row."""

    __slots__ = ("_alone", "_functions", "by_function", "totals", "version")

    def __init__(self, functions: Sequence[ScoreFunction]) -> None:
        self._functions = [(number, function) for number, function in enumerate(functions) if not function.fresh]
        self._alone = len(functions) == 1 and not functions[0].late
        """Whether there is one score only, which is the sum then."""
        self.version = -1
        self.totals = np.zeros(0)
        """The sum of the scores that depend on the pods and the row alone."""
        self.by_function: list[Array | None] = [None] * len(functions)
        """Each function's scores; nothing where all nodes are alike to it."""

    def update(self, task: Task, columns: Columns, nodes: Nodes | None = None) -> None:
        """Ask about the nodes that changed; about all of them at first. `nodes` are those, if they are known."""
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
