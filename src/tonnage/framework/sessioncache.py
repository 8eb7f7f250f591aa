"""Session cache: one session per cycle over a live cluster, or one that stays open where the result is the same."""

from collections.abc import Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.framework import points
from tonnage.framework.plugin import Plugin
from tonnage.framework.registration import CallObserver
from tonnage.framework.session import Session

_ABOUT_QUEUES = {
    point.name for point in (points.QUEUE_ORDER, points.OVERUSED, points.ALLOCATABLE, points.JOB_ENQUEUEABLE)
}
_ORDERS_OF_JOBS = {("priority", points.JOB_ORDER.name), ("gang", points.JOB_ORDER.name)}
"""Orders of jobs that depend on the jobs alone."""


def may_stay_open(session: Session, plugins: Sequence[Plugin]) -> bool:
    """Whether the cluster's events keep all that the plugins know current, so that one session serves all cycles.

    They do not for what plugins work out about queues when a session opens, nor for plugins that are not trusted.
    """
    if not all(plugin.trusted for plugin in plugins):
        return False
    orders = {entry for entry in session.registered if entry[1] == points.JOB_ORDER.name}
    return not _ABOUT_QUEUES & {point for _, point in session.registered} and orders <= _ORDERS_OF_JOBS


class SessionCache:
    """Hands out a session for each cycle."""

    def __init__(
        self, cluster: Cluster, plugins: Sequence[Plugin], *, brief: bool = False, observer: CallObserver | None = None
    ) -> None:
        self.cluster = cluster
        self.plugins = plugins
        self._brief = brief
        """Whether decisions about pods with a node leave out other nodes."""
        self._observer = observer
        self._kept: Session | None = None

    def open(self) -> Session:
        """A session without results; the caller returns it with `done`."""
        if self._kept is not None:
            self._kept.reset()
            return self._kept
        session = Session(self.cluster, self.plugins, brief=self._brief, observer=self._observer)
        if may_stay_open(session, self.plugins):
            self._kept = session
        return session

    def done(self, session: Session) -> None:
        """Take back the session of a finished cycle."""
        if session is not self._kept:
            session.close()

    def discard(self, session: Session) -> None:
        """Close the session of a cycle that failed: what its plugins know of the cluster cannot be trusted."""
        if session is self._kept:
            self._kept = None
        session.close()

    def unplace(self, key: str) -> None:
        """Undo a placement between two cycles."""
        if self._kept is not None:
            self._kept.unplace(key)
        else:
            self.cluster.release(key)

    def close(self) -> None:
        """Close the session that stayed open."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
