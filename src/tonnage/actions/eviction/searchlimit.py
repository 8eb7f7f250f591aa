"""Search limit: how much an action may try in one cycle for the jobs of each namespace, and whose turn it is.

Work is counted in trials: a pod that is removed or restored is one, a decision is ten, and rules about other pods make
both dearer. All namespaces with waiting jobs have the same allowance. A search that exceeds it stops and goes on in the
next cycle where it stopped; the namespace's other jobs come first after it, before any job that had its turn. So no job
waits for ever, and no namespace slows down the searches for others. Ordinary searches stay far below the limit.
"""

from collections.abc import Hashable, Iterable

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task

MOST_TRIALS = 20_000
"""The trials of one action in one cycle, shared by namespaces: about a quarter of a second."""
FEWEST_TRIALS = 1000
"""The allowance of a namespace however many there are."""
OF_A_DECISION = 10
TERMS_PER_TRIAL = 16
"""So many terms of a pod's affinity make removing another pod as dear as two without them."""

Place = tuple[str, Hashable, str, int]
"""A set of nodes, a class of pods, a node or nothing for all of them, and how many pods of the job had a place."""


class Progress:
    """What searches for one job have tried, and how many trials that took."""

    def __init__(self, allowance: int, before: "Progress | None" = None) -> None:
        self.allowance = allowance
        self.spent = 0
        """All trials."""
        self._fruitless = 0
        """The trials that found no place."""
        self._before: dict[Place, int] = {} if before is None else before.tried()
        """With how many candidates each place was tried in vain in the cycles before."""
        self._tried: dict[Place, int] = {}
        """The same, this time."""

    @property
    def is_over(self) -> bool:
        """Whether the search must stop."""
        return self._fruitless >= self.allowance

    def decided(self, task: Task) -> None:
        """Count a decision about a pod."""
        self._count(OF_A_DECISION + terms(task))

    def tried_without(self, task: Task, pods: int) -> None:
        """Count pods that are removed or restored for a pod."""
        self._count(pods * (1 + terms(task) // TERMS_PER_TRIAL))

    def _count(self, trials: int) -> None:
        self.spent += trials
        self._fruitless += trials

    def found(self, since: int) -> None:
        """The trials since then found a place."""
        self._fruitless -= self.spent - since

    def tried(self) -> dict[Place, int]:
        """With how many candidates each place was tried in vain."""
        return self._before | self._tried

    def was_tried(self, place: Place, candidates: int) -> bool:
        """Whether a cycle before tried a place in vain with as many candidates."""
        return self._before.get(place, 0) >= candidates

    def failed(self, place: Place, candidates: int) -> None:
        """A place was tried in vain."""
        self._tried[place] = candidates


class SearchLimit:
    """The accounts of namespaces with one action, over all of its cycles."""

    def __init__(self, most: int = MOST_TRIALS) -> None:
        self._most = most
        self.allowance = most
        self._spent: dict[str, int] = {}
        """What each namespace has spent beyond its allowances so far."""
        self._searched: dict[str, set[str]] = {}
        """The jobs of a namespace that had their turn, since not all of them did."""
        self._stopped: dict[str, tuple[str, Progress]] = {}
        """The job of a namespace whose search stopped, with what was tried."""
        self._postponed: set[str] = set()
        """Namespaces with a job that did not get its turn in this cycle, or not all of it."""

    def begin(self, jobs: Iterable[Job]) -> None:
        """Begin a cycle with these waiting jobs."""
        namespaces = {job.namespace for job in jobs}
        allowance = max(self._most // max(len(namespaces), 1), min(FEWEST_TRIALS, self._most))
        self._spent = {name: max(self._spent.get(name, 0) - self.allowance, 0) for name in namespaces}
        self._searched = {name: self._searched.get(name, set()) for name in namespaces & self._postponed}
        self._stopped = {name: stopped for name, stopped in self._stopped.items() if name in namespaces}
        self._postponed = set()
        self.allowance = allowance

    def turn(self, job: Job) -> Progress | None:
        """What a search for the job may spend; nothing if it is not the job's turn."""
        name, left = job.namespace, self.allowance - self._spent.get(job.namespace, 0)
        if job.key in self._searched.get(name, ()):
            return None
        if left <= 0:
            self._postponed.add(name)
            return None
        stopped = self._stopped.get(name)
        return Progress(left, stopped[1] if stopped is not None and stopped[0] == job.key else None)

    def ended(self, job: Job, progress: Progress, *, room_was_made: bool) -> None:
        """The searches for a job are over, or stopped."""
        name = job.namespace
        if room_was_made:
            self._forget(job)
            return
        self._spent[name] = self._spent.get(name, 0) + progress.spent
        if progress.is_over:
            self._stopped[name] = job.key, progress
            self._postponed.add(name)
        else:
            self._forget(job)
            self._searched.setdefault(name, set()).add(job.key)

    def _forget(self, job: Job) -> None:
        if self._stopped.get(job.namespace, ("", None))[0] == job.key:
            del self._stopped[job.namespace]


def terms(task: Task) -> int:
    """The number of a pod's terms about other pods."""
    rules = task.rules
    return 0 if rules is None else len(rules.anti) + len(rules.affinity) + len(rules.preferred)
