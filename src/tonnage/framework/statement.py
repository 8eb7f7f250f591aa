"""Statement: placements and evictions that belong together, committed as a whole or undone exactly.

Each step changes the session at once, so that the next step sees it, and the plugins' event handlers hear of it and of
its undoing. Leaving the statement without `commit` undoes all steps.
"""

from types import TracebackType
from typing import NamedTuple

import msgspec

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, Eviction
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.session import Session

_AGAIN = " (again)"
"""Marks the pod that will replace a victim: its own name is not known yet."""


def successor(key: str) -> str:
    """The key that stands for the pod that will replace a victim, until that pod exists."""
    return key + _AGAIN


class StatementError(Exception):
    """A step is invalid, and could not be undone."""


class _Step(NamedTuple):
    """A placement; an eviction if `eviction` is set."""

    task: Task
    waited: bool = False
    """Whether the pod was among the waiting ones before it was placed."""
    eviction: Eviction | None = None


class Statement:
    """Steps that can be undone. Use it in a `with` statement."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps: list[_Step] = []
        self._committed = False

    def __enter__(self) -> "Statement":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            self.undo()

    def __len__(self) -> int:
        """How many steps there are; a mark to undo back to."""
        return len(self._steps)

    def place(self, task: Task, among: NodeSet | None = None) -> Decision:
        """Place a pod where it fits now, on the nodes of `among` if it is given."""
        self._check(task)
        waited = task.key in self._session.cluster.waiting
        decision = self._session.place(task, among)
        if decision.node is not None:
            self._steps.append(_Step(task, waited))
        return decision

    def take(self, decision: Decision) -> None:
        """Place a pod as decided before."""
        self._check(decision.task)
        waited = decision.task.key in self._session.cluster.waiting
        self._session.take(decision)
        self._steps.append(_Step(decision.task, waited))

    def move(self, task: Task) -> Decision:
        """Place the pod that will replace a victim."""
        return self.place(msgspec.structs.replace(task, key=successor(task.key)))

    def pipeline(self, task: Task, among: NodeSet | None = None) -> Decision:
        """Place a pod where it fits once the leaving pods have left."""
        with self._session.looking_ahead():
            return self.place(task, among)

    def evict(self, task: Task, beneficiary: str, reason: str) -> None:
        """Evict a running pod for the job of that name."""
        self._check(task)
        cluster = self._session.cluster
        if task.key not in cluster.running or task.key in cluster.leaving:
            raise StatementError(f"{task.key} cannot be evicted: it does not run, or is leaving already")
        self._session.evict(task)
        self._steps.append(_Step(task, eviction=Eviction(task.key, cluster.holders[task.key], beneficiary, reason)))

    def undo(self, mark: int = 0) -> None:
        """Undo all steps after the mark, the last one first."""
        if self._committed:
            raise StatementError("the statement is committed")
        session = self._session
        while len(self._steps) > mark:
            step = self._steps.pop()
            if step.eviction is not None:
                session.restore(step.task)
            else:
                self._unplace(step)

    def undo_places(self) -> None:
        """Undo all placements, the last one first; the evictions stay."""
        if self._committed:
            raise StatementError("the statement is committed")
        for step in reversed(self._steps):
            if step.eviction is None:
                self._unplace(step)
        self._steps = [step for step in self._steps if step.eviction is not None]

    def _unplace(self, step: _Step) -> None:
        self._session.unplace(step.task.key)
        if not step.waited:
            self._session.cluster.waiting.pop(step.task.key, None)

    def commit(self) -> None:
        """Keep all steps."""
        if self._committed:
            raise StatementError("the statement is committed")
        self._committed = True
        holders = self._session.cluster.holders
        for step in self._steps:
            if step.eviction is not None:
                to = holders.get(successor(step.task.key), "")
                self._session.evictions.append(msgspec.structs.replace(step.eviction, to=to))

    def _check(self, task: Task) -> None:
        if self._committed:
            raise StatementError("the statement is committed")
        if task.key in self._session.cluster.reserved:
            raise StatementError(f"{task.key} has a place already; undo that first")
