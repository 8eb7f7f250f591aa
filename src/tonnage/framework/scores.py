"""Scores of all nodes for pods that no scoring plugin can tell apart.

Pod classes that differ only in where they fit share their scores, so a pod of a new shape rarely needs a full scoring.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import Array, Columns, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.points import Key, NodeOrder, Note, Reads, ReadsOf, Reduce, what_it_reads


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
        reads: ReadsOf = Reads.EVERYTHING,
        note: Note | None = None,
    ) -> None:
        self.plugin = plugin
        self.evaluate = evaluate
        self.key = key
        self.reduce = reduce
        self.fresh = fresh or every_pod
        self.reads = reads
        self.place = 0
        """The place of its key in the key of a class."""
        self.alike = alike
        """The score of every node when the function answers nothing; it does not change the order."""
        self.note = note
        """Says in a sentence what its score of the chosen node means."""
        self.every_pod = every_pod
        """Whether it tells pods of one class apart, so that it is called for each pod."""
        self.late = self.fresh or reduce is not None
        """Whether the score of a node depends on other nodes, so that it is computed last."""


class NodeScores(NamedTuple):
    """The scores of one node: their sum, and that of each function."""

    total: float
    by_function: list[float]


class Scores:
    """The scores of each function for each node, updated row by row."""

    __slots__ = ("_alone", "_functions", "by_function", "totals", "version")

    def __init__(self, functions: Sequence[ScoreFunction], concerned: Sequence[bool]) -> None:
        self._functions = [
            (number, function) for number, function in enumerate(functions) if not function.fresh and concerned[number]
        ]
        self._alone = len(functions) == len(self._functions) == 1 and not functions[0].late
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
            nodes = columns.nodes_since(self.version) if nodes is None else nodes
            self._ask(task, nodes, nodes.rows)
        self.version = columns.clock

    def _ask(self, task: Task, nodes: Nodes, rows: Array | slice | None) -> None:
        if self._alone:
            answer = self._functions[0][1].evaluate(task, nodes)
            self.totals[rows] = 0.0 if answer is None else answer
            self.by_function[0] = self.totals
            return
        only_pods = self.version >= nodes.columns.nodes_changed
        totals: Array | None = None
        for number, function in self._functions:
            known = self.by_function[number]
            if only_pods and function.reads is Reads.NODE:
                answer = None if known is None else nodes.pick(known)
            else:
                answer = function.evaluate(task, nodes)
                if known is None:
                    if answer is None:
                        continue
                    known = self.by_function[number] = np.zeros(len(self.totals))
                known[rows] = 0.0 if answer is None else answer
            if not function.late and answer is not None:
                totals = answer.astype(np.float64) if totals is None else totals + answer
        self.totals[rows] = 0.0 if totals is None else totals

    # -- nodes that look alike

    def follow_looks(self, task: Task) -> bool:
        """Whether the scores of a node depend on its look alone, as long as no node object changes."""
        silent = [number for number, function in self._functions if self.by_function[number] is None]
        return all(
            what_it_reads(function.reads, task) is Reads.LOOK or (function.reads is Reads.NODE and number in silent)
            for number, function in self._functions
        )

    def of_row(self, row: int) -> NodeScores:
        """The scores of one node, for others that look like it."""
        scores = [0.0 if column is None else column.item(row) for column in self.by_function]
        return NodeScores(self.totals.item(row), scores)

    def put(self, row: int, scores: NodeScores, clock: int) -> None:
        """Score the only node that changed like one that looks the same."""
        for column, score in zip(self.by_function, scores.by_function, strict=True):
            if column is not None:
                column[row] = score
        self.totals[row] = scores.total
        self.version = clock
