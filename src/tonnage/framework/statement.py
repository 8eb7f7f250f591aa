"""Statement: placements and evictions that belong together, committed as a whole or undone exactly.

Each step changes the session at once, so that the next step sees it, and the plugins' event handlers hear of it and of
its undoing. Leaving the statement without `commit` undoes all steps. Evicting a pod that waits with a place takes a
promise back: nobody is stopped, and the pod waits without a place or gets another promise.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

import msgspec

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, Eviction, Reason
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
    decision: Decision | None = None
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
            self._steps.append(_Step(task, waited, decision))
        return decision

    def take(self, decision: Decision) -> None:
        """Place a pod as decided before."""
        self._check(decision.task)
        waited = decision.task.key in self._session.cluster.waiting
        self._session.take(decision)
        self._steps.append(_Step(decision.task, waited, decision))

    def move(self, task: Task) -> Decision:
        """Place the pod that will replace a victim, or find another place for one whose promise is taken back."""
        return self.place(msgspec.structs.replace(task, key=successor(task.key)))

    def pipeline(self, task: Task, among: NodeSet | None = None) -> Decision:
        """Place a pod where it fits once the leaving pods have left."""
        with self._session.looking_ahead():
            return self.place(task, among)

    def evict(self, task: Task, beneficiary: str, reason: str) -> None:
        """Evict a running pod for the job of that name, or take back the place that was promised to a waiting one."""
        cluster = self._session.cluster
        if task.key in cluster.pipelined:
            self._check_open()
        else:
            self._check(task)
        if task.key in cluster.leaving or (task.key not in cluster.running and task.key not in cluster.pipelined):
            raise StatementError(f"{task.key} cannot be evicted: it does not run, or is leaving already")
        self._session.evict(task)
        self._steps.append(_Step(task, eviction=Eviction(task.key, cluster.holders[task.key], beneficiary, reason)))

    def undo(self, mark: int = 0) -> None:
        """Undo all steps after the mark, the last one first."""
        self._check_open()
        session = self._session
        while len(self._steps) > mark:
            step = self._steps.pop()
            if step.eviction is not None:
                session.restore(step.task)
            else:
                self._unplace(step)

    def undo_places(self) -> None:
        """Undo all placements, the last one first; the evictions stay."""
        self._check_open()
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
        self._check_open()
        self._committed = True
        evicting = [step for step in self._steps if step.eviction is not None]
        if evicting:
            self._announce(evicting)

    def _announce(self, evicting: Sequence[_Step]) -> None:
        """Make the evictions known, and what becomes of places that were only promised."""
        session = self._session
        places = {step.task.key: step.decision for step in self._steps if step.decision is not None}
        for step in evicting:
            eviction, again = step.eviction, successor(step.task.key)
            assert eviction is not None
            if step.task.key in session.cluster.running:
                to = session.cluster.holders.get(again, "")
                session.evictions.append(msgspec.structs.replace(eviction, to=to))
            else:
                self._take_back(step.task, eviction, places.get(again))

    def _take_back(self, task: Task, eviction: Eviction, other: Decision | None) -> None:
        """Release a promised place, and promise the other one that was found for its successor, if there is one."""
        session, known = self._session, self._session.decisions.get(task.key)
        # The event handlers have heard of it.
        session.cluster.release(task.key)
        if other is None:
            told = f"its place on {eviction.node} was only promised, and went to {eviction.for_}: {eviction.reason}"
            reason = Reason("PromiseTakenBack", told)
            session.decisions[task.key] = session.refuse(task, session.acting, reason)
            return
        session.unplace(other.task.key)
        session.cluster.waiting.pop(other.task.key, None)
        other.task, other.job = task, session.job_of(task) if known is None else known.job
        with session.looking_ahead():
            session.take(other)
        session.decisions[task.key] = other

    def _check(self, task: Task) -> None:
        self._check_open()
        if task.key in self._session.cluster.reserved:
            raise StatementError(f"{task.key} has a place already; undo that first")

    def _check_open(self) -> None:
        if self._committed:
            raise StatementError("the statement is committed")
