"""The proof of a plan: its moves in an order in which each fits when it is made, by the engine with all plugins.

Each step evicts a pod and places the one that comes in its stead, in the cluster as the steps before have left it. A
move that does not fit yet is tried again after others. If only a circle of moves is left, each of which waits for
another, one pod of it makes way to any node with room and moves once more later; if there is no such room, the moves
are left out and the answer says so. In the end the cluster is as before.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tonnage.cluster.columns import Array
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement, successor
from tonnage.plan.defrag.problem import PlanProblem, PodMove, Solution

_MOST_DETOURS = 8


class ProvenMove(NamedTuple):
    """A step that the engine has made."""

    pod: int
    node: str
    to: str
    devices: tuple[str, ...]
    to_devices: tuple[str, ...]
    is_detour: bool
    usable: float


class ProvenStart(NamedTuple):
    """A waiting job whose pods the engine has placed."""

    job: int
    nodes: dict[str, str]


class Refused(NamedTuple):
    """A move for which the engine finds no way."""

    pod: int
    row: int
    why: str


class Proven(NamedTuple):
    """What is left of a solution after its proof."""

    moves: tuple[ProvenMove, ...]
    starts: tuple[ProvenStart, ...]
    refused: tuple[Refused, ...]


Measure = Callable[[], float]


class Proof:
    """Makes the moves of a solution in a session, and undoes them."""

    def __init__(self, problem: PlanProblem, usable: Measure) -> None:
        self._problem, self._usable = problem, usable
        self._session: Session = problem.session
        self._cluster = problem.session.cluster
        self._steps: list[ProvenMove] = []
        self._at: dict[int, Task] = {}
        """Where pods are that have made way: the task that stands for each."""
        self._why: dict[int, str] = {}

    def run(self, solution: Solution, then: Callable[[], None]) -> Proven:
        """Prove a solution; `then` is called on the cluster as it is after all of it."""
        with Statement(self._session) as statement, self._session.looking_ahead():
            pending = self._in_turn(statement, list(solution.moves))
            detours = 0
            while pending and detours < _MOST_DETOURS and self._make_way(statement, pending):
                detours += 1
                pending = self._in_turn(statement, pending)
            starts = self._start(statement, solution)
            then()
        # A pod that made way and cannot go on has found its place: the proof measures what that is worth.
        stranded = {move.pod for move in pending if move.pod in self._at}
        steps = [step._replace(is_detour=False) if step.pod in stranded else step for step in self._steps]
        refused = [Refused(move.pod, move.row, self._why[move.pod]) for move in pending if move.pod not in stranded]
        return Proven(tuple(steps), tuple(starts), tuple(refused))

    def _in_turn(self, statement: Statement, pending: list[PodMove]) -> list[PodMove]:
        """Make all moves that can be made one after another; the rest is returned.

        Pods leave a node before others come to it wherever that is possible: on a node that others have yet to leave,
        a pod might fit and still take a card that was to become free.
        """
        while pending:
            leaving = Counter(self._row(move.pod) for move in pending)
            after_others = [move for move in pending if leaving[move.row] == (self._row(move.pod) == move.row)]
            made = {move.pod for move in after_others if self._make(statement, move.pod, self._only(move.row))}
            if not made:
                first = next((one for one in pending if self._make(statement, one.pod, self._only(one.row))), None)
                if first is None:
                    return pending
                made = {first.pod}
            pending = [move for move in pending if move.pod not in made]
        return pending

    def _row(self, pod: int) -> int:
        """The row of the node where a pod is now."""
        task = self._at.get(pod, self._problem.pods[pod].task)
        return self._cluster.nodes[self._cluster.holders[task.key]].row

    def _make_way(self, statement: Statement, pending: Sequence[PodMove]) -> bool:
        """Move one pod of a circle to any other node with room, for now."""
        for move in pending:
            if move.pod in self._at:
                continue
            elsewhere = np.ones(self._cluster.columns.size, np.bool_)
            elsewhere[[move.row, self._problem.pods[move.pod].row]] = False
            if self._make(statement, move.pod, elsewhere, is_detour=True):
                return True
        return False

    def _make(self, statement: Statement, pod: int, among: Array, *, is_detour: bool = False) -> bool:
        task = self._at.get(pod, self._problem.pods[pod].task)
        mark = len(statement)
        node, before = self._cluster.holders[task.key], self._devices(task.key)
        statement.evict(task, "", "")
        again = msgspec.structs.replace(task, key=successor(task.key))
        decision = self._session.decide(again, among)
        if decision.node is None:
            statement.undo(mark)
            if not is_detour:
                self._why[pod] = _why(decision)
            return False
        statement.take(decision)
        after = self._devices(again.key)
        if node == decision.node and before == after:
            # It would come back to where it is.
            statement.undo(mark)
            self._why[pod] = f"the plugins give it the same cards of {node} again"
            return False
        self._at[pod] = again
        self._steps.append(ProvenMove(pod, node, decision.node, before, after, is_detour, self._usable()))
        return True

    def _devices(self, key: str) -> tuple[str, ...]:
        held = self._cluster.held(key)
        return tuple(sorted(uuid for _, uuid in held.cards)) if held is not None else ()

    def _only(self, row: int) -> Array:
        mask = np.zeros(self._cluster.columns.size, np.bool_)
        mask[row] = True
        return mask

    def _start(self, statement: Statement, solution: Solution) -> list[ProvenStart]:
        """Place the pods of the jobs that start, each job whole or not at all."""
        proven: list[ProvenStart] = []
        for start in solution.starts:
            mark, nodes = len(statement), {}
            for task, row in zip(self._problem.waiting[start.job].tasks, start.rows, strict=True):
                decision = self._session.decide(task, self._only(row))
                if decision.node is None:
                    decision = self._session.decide(task)
                if decision.node is None:
                    statement.undo(mark)
                    break
                statement.take(decision)
                nodes[task.key] = decision.node
            else:
                proven.append(ProvenStart(start.job, nodes))
        return proven


def _why(decision: Decision) -> str:
    rejected = decision.rejected
    return rejected[0].message if rejected else "no node is left to ask"
