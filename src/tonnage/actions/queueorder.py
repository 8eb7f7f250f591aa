"""The queues that have something to be served, as the tree that they are, the one to be served next in front.

What happens to a queue can change its own place among its siblings, and that of the queues above it among theirs. So
siblings are kept in order, and only those to which something has happened are put into their places again.
"""

from bisect import insort
from collections.abc import Iterable
from functools import cmp_to_key
from itertools import chain
from operator import attrgetter

from tonnage.cluster.jobs.queue import Queue
from tonnage.framework.session import Session

_depth = attrgetter("depth")


class _Branch:
    """A queue to be served, or one that has such queues below it, or all queues."""

    __slots__ = ("below", "depth", "queue", "siblings")

    def __init__(self, siblings: "list[_Branch]", depth: int = 0, queue: Queue | None = None) -> None:
        self.siblings = siblings
        """The branches that it stands among, the one that is served next in front."""
        self.below: list[_Branch] = []
        self.depth = depth
        self.queue = queue
        """The queue, if it is to be served itself."""

    def first(self) -> Queue:
        """The queue of this branch that is served next."""
        branch = self
        while branch.queue is None:
            branch = branch.below[0]
        return branch.queue


class QueueOrder:
    """Some queues of a session, in the order in which plugins say that they are served."""

    def __init__(self, session: Session, names: Iterable[str]) -> None:
        self._session = session
        self._key = cmp_to_key(self._compare)
        self._top = _Branch([])
        self._paths: dict[str, list[_Branch]] = {}
        """For queues the branches that may move when something happens to them, upwards."""
        self._seen = len(session.queue_changes)
        self._above: dict[str, _Branch] = {}
        for name in sorted(names):
            branch = self._top
            for parent in reversed(list(session.cluster.groups.hierarchy().upwards(name))[1:]):
                if parent not in self._above:
                    self._above[parent] = _Branch(branch.below, branch.depth + 1)
                branch = self._above[parent]
            leaf = _Branch(branch.below, branch.depth + 1, session.cluster.queues[name])
            self._paths[name] = [leaf, *self._path(name)]
        self._put_in_place(list(self._paths))

    def first(self) -> Queue | None:
        """The queue that is to be served now; nothing if none is left."""
        changes = self._session.queue_changes
        if self._seen < len(changes):
            self._put_in_place(changes[self._seen :])
            self._seen = len(changes)
        return self._top.first() if self._top.below else None

    def drop(self, name: str) -> None:
        """A queue has nothing to be served any more, which may change the places of those above it."""
        leaf, *self._paths[name] = self._paths[name]
        leaf.siblings.remove(leaf)
        self._session.serve_next(name, None)

    def _put_in_place(self, names: Iterable[str]) -> None:
        """Put the queues to which something happened where they belong now, and all above them, the deepest first."""
        paths = [self._path(name) for name in dict.fromkeys(names)]
        moved = paths[0] if len(paths) == 1 else sorted(dict.fromkeys(chain(*paths)), key=_depth, reverse=True)
        for branch in moved:
            if branch in branch.siblings:
                branch.siblings.remove(branch)
        for branch in moved:
            if branch.queue is not None or branch.below:
                insort(branch.siblings, branch, key=self._key)

    def _path(self, name: str) -> list[_Branch]:
        """The branches that may move when something happens to a queue, also to one that is not to be served."""
        known = self._paths.get(name)
        if known is None:
            upwards = self._session.cluster.groups.hierarchy().upwards(name)
            known = self._paths[name] = [self._above[one] for one in upwards if one in self._above]
        return known

    def _compare(self, one: _Branch, other: _Branch) -> int:
        return self._session.queues.compare(one.first(), other.first())
