"""A cycle on the live picture: what it decided, with everything that waits only in thought put back."""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.framework.action import Action
from tonnage.framework.decision import PLACED, Decision, Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.scheduler.cycle import run_cycle
from tonnage.scheduler.sessions import Sessions


class Cycle(NamedTuple):
    """What came of one cycle."""

    placed: list[Decision]
    """Pods whose places are reserved, to be bound."""
    waiting: list[Decision]
    """Pods without a place, and pods whose place others have to leave first: nothing is reserved for them."""
    waits: Mapping[str, Mapping[str, Reason]]
    """Why no room was made for jobs, by action."""


class Deciding:
    """Runs cycles over one cluster."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[Action]) -> None:
        self._cluster = cluster
        self._sessions = Sessions(cluster, plugins, brief=True)
        self._actions = actions
        self.placed: dict[str, Decision] = {}
        """Decisions about pods whose place is reserved, by pod; what is over is forgotten by the next cycle."""

    def run(self, passed_over: Container[str], now: float) -> Cycle:
        """Decide about all waiting pods but those that are passed over."""
        self._cluster.now = now
        session = self._sessions.open()
        try:
            session.passed_over = passed_over
            decisions = run_cycle(session, self._actions)
            placed = [decision for decision in decisions if decision.outcome == PLACED]
            waiting = [decision for decision in decisions if decision.outcome != PLACED]
            _forget_promises(session, waiting)
            self.placed = {key: made for key, made in self.placed.items() if key in self._cluster.reserved}
            self.placed |= {decision.task.key: decision for decision in placed}
            return Cycle(placed, waiting, {job: dict(reasons) for job, reasons in session.waits.items()})
        finally:
            self._sessions.done(session)

    def configure(self, plugins: Sequence[Plugin], actions: Sequence[Action], now: float) -> None:
        """Decide by these from the next cycle on; SessionError if they cannot be opened, and all stays as it is."""
        self._cluster.now = now
        sessions = Sessions(self._cluster, plugins, brief=True)
        sessions.done(sessions.open())
        self._sessions.close()
        self._sessions, self._actions = sessions, actions

    def release(self, key: str) -> None:
        """Give up a reserved place."""
        self._sessions.unplace(key)

    def close(self) -> None:
        """Let plugins tidy up."""
        self._sessions.close()


def _forget_promises(session: Session, waiting: Sequence[Decision]) -> None:
    """A place that others have yet to leave is promised within one cycle; the next decides anew."""
    for decision in waiting:
        if decision.task.key in session.cluster.promised:
            session.unplace(decision.task.key)
