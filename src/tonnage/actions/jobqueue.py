"""Job queue: the waiting jobs of an action, the one to consider next first.

Queues come in the order that the plugins give, and so do the jobs in each queue. What happens to a queue can change its
own place among its siblings, and that of the queues above it among theirs. So siblings are kept sorted, and only queues
to which something has happened are inserted again.

Of very many waiting pods a cycle gets only some of each queue. When a queue has used up its jobs, with places for the
last one, and has more that are not in this cycle, the turns end there: the next one may be its own.
"""

from bisect import insort
from collections.abc import Iterable
from functools import cmp_to_key
from itertools import chain
from operator import attrgetter

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session

_depth = attrgetter("depth")


class JobQueue:
    """Waiting jobs by queue; `next` takes them off one by one."""

    def __init__(self, session: Session, jobs: Iterable[Job], *, skips_overused: bool = True) -> None:
        self._session = session
        self._skips_overused = skips_overused
        """Whether the jobs of a queue that has had its share are refused."""
        self._key = cmp_to_key(self._compare_backwards)
        self._last: dict[str, Job] = {}
        """The last job of each queue that was taken off."""
        self._jobs: dict[str, list[Job]] = {}
        """By queue; the next job is the last of the list, where it is popped quickest."""
        for job in jobs:
            self._jobs.setdefault(job.queue, []).append(job)
        for name, waiting in self._jobs.items():
            waiting[:] = reversed(session.jobs.ordered(waiting))
            self._announce_next(name)
        self._queues = QueueOrder(session, self._jobs)

    def _compare_backwards(self, one: Job, other: Job) -> int:
        return self._session.jobs.compare(other, one)

    def next(self) -> tuple[Queue, Job] | None:
        """The job to consider now, with its queue; nothing if none is left."""
        while (queue := self._queues.first()) is not None:
            jobs = self._jobs[queue.name]
            overused = self._session.queues.why_overused(queue) if jobs and self._skips_overused else None
            if jobs and overused is None:
                job = self._last[queue.name] = jobs.pop()
                self._announce_next(queue.name)
                return queue, job
            if not jobs and self._has_more(queue.name):
                self._end_turns()
                return None
            self._queues.drop(queue.name)
            if overused is not None:
                self._refuse(jobs, *overused)
        return None

    def _has_more(self, queue: str) -> bool:
        """Whether the next turn may be that of a job that is not in this cycle."""
        last = self._last.get(queue)
        return queue in self._session.cut_queues and last is not None and not last.count(PodStatus.WAITING)

    def _end_turns(self) -> None:
        for name, jobs in self._jobs.items():
            self._session.not_reached.update([job.key for job in jobs])
            self._session.set_next_job(name, None)

    def put_back(self, job: Job) -> None:
        """Queue a job again that still has pods to place; only its own place in the order may have changed."""
        insort(self._jobs[job.queue], job, key=self._key)
        self._announce_next(job.queue)

    def _announce_next(self, queue: str) -> None:
        jobs = self._jobs[queue]
        self._session.set_next_job(queue, jobs[-1] if jobs else None)

    def _refuse(self, jobs: list[Job], plugin: str, reason: Reason) -> None:
        """Let the jobs of a queue wait that has had its share."""
        for job in reversed(jobs):
            for task in job.tasks_that(PodStatus.WAITING):
                self._session.decisions[task.key] = self._session.refuse(task, plugin, reason)


class _Branch:
    """A queue with waiting jobs, a queue with such queues below it, or the root of all queues."""

    __slots__ = ("below", "depth", "queue", "siblings")

    def __init__(self, siblings: "list[_Branch]", depth: int = 0, queue: Queue | None = None) -> None:
        self.siblings = siblings
        """The branches that it stands among, the next one first."""
        self.below: list[_Branch] = []
        self.depth = depth
        self.queue = queue
        """The queue, if it has waiting jobs itself."""

    def first(self) -> Queue:
        """The next queue of this branch."""
        branch = self
        while branch.queue is None:
            branch = branch.below[0]
        return branch.queue


class QueueOrder:
    """Some queues of a session as a tree, sorted by the plugins' order of queues."""

    def __init__(self, session: Session, names: Iterable[str]) -> None:
        self._session = session
        self._key = cmp_to_key(self._compare)
        self._root = _Branch([])
        self._paths: dict[str, list[_Branch]] = {}
        """For each queue the branches that may move when something happens to it, upwards."""
        self._seen = len(session.queue_changes)
        """How many of the session's changes of queues the order takes into account."""
        self._above: dict[str, _Branch] = {}
        for name in sorted(names):
            branch = self._root
            for parent in reversed(list(session.cluster.groups.hierarchy().upwards(name))[1:]):
                if parent not in self._above:
                    self._above[parent] = _Branch(branch.below, branch.depth + 1)
                branch = self._above[parent]
            leaf = _Branch(branch.below, branch.depth + 1, session.cluster.queues[name])
            self._paths[name] = [leaf, *self._path(name)]
        self._sort(list(self._paths))

    def first(self) -> Queue | None:
        """The next queue; nothing if none is left."""
        changes = self._session.queue_changes
        if self._seen < len(changes):
            self._sort(changes[self._seen :])
            self._seen = len(changes)
        return self._root.first() if self._root.below else None

    def drop(self, name: str) -> None:
        """Take out a queue without waiting jobs, which may change the places of the queues above it."""
        leaf, *self._paths[name] = self._paths[name]
        leaf.siblings.remove(leaf)
        self._session.set_next_job(name, None)

    def _sort(self, names: Iterable[str]) -> None:
        """Insert queues to which something happened, and all queues above them, where they belong, deepest first."""
        paths = [self._path(name) for name in dict.fromkeys(names)]
        moved = paths[0] if len(paths) == 1 else sorted(dict.fromkeys(chain(*paths)), key=_depth, reverse=True)
        for branch in moved:
            if branch in branch.siblings:
                branch.siblings.remove(branch)
        for branch in moved:
            if branch.queue is not None or branch.below:
                insort(branch.siblings, branch, key=self._key)

    def _path(self, name: str) -> list[_Branch]:
        """The branches that may move when something happens to a queue, with or without waiting jobs."""
        known = self._paths.get(name)
        if known is None:
            upwards = self._session.cluster.groups.hierarchy().upwards(name)
            known = self._paths[name] = [self._above[one] for one in upwards if one in self._above]
        return known

    def _compare(self, one: _Branch, other: _Branch) -> int:
        return self._session.queues.compare(one.first(), other.first())
