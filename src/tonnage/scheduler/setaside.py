"""SetAside: the jobs, namespaces and actions that cycles leave out for a while, because a cycle failed at them.

A job that makes a cycle raise is left out for 1 to 300 seconds, twice as long each time, and comes back at once when
one of its pods or its group changes. A namespace whose jobs fail more than 10 times in a minute is left out as a whole
for a minute, because every failure costs another run of the cycle. An action that fails whatever job it looks at is
left out for 1 to 60 seconds.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task

FIRST_BACKOFF, LONGEST_BACKOFF, LONGEST_OF_ACTION = 1.0, 300.0, 60.0
MOST_FAILURES, PERIOD = 10, 60.0
"""How many failures a namespace may have in so many seconds."""


class _Aside(NamedTuple):
    """A job that is left out."""

    until: float
    pods: frozenset[str]
    looked: object
    """The job as it was when the cycle failed."""


class SetAside:
    """What cycles leave out; times are in seconds since 1970. It contains the pods of jobs that are left out."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._jobs: dict[str, _Aside] = {}
        self._pods: frozenset[str] = frozenset()
        """The pods of these jobs."""
        self._failures: dict[str, int] = {}
        """Failures in a row, by job or action."""
        self._recent: dict[str, list[float]] = {}
        """When the jobs of each namespace failed last."""
        self._namespaces: dict[str, float] = {}
        self._actions: dict[str, float] = {}
        self.jobs = _Jobs(self._jobs, self._namespaces)
        """The jobs that are left out."""

    def __contains__(self, pod: object) -> bool:
        return pod in self._pods or (bool(self._namespaces) and _namespace(str(pod)) in self._namespaces)

    def __len__(self) -> int:
        """How many jobs are left out."""
        return len(self._jobs)

    def __bool__(self) -> bool:
        return bool(self._jobs or self._namespaces)

    @property
    def actions(self) -> Iterable[str]:
        """The actions that are left out."""
        return self._actions

    # -- failures

    def add(self, job: Job, now: float) -> float:
        """Leave out a job; for how many seconds."""
        seconds = self._back_off(job.key, LONGEST_BACKOFF)
        pods = frozenset(job.tasks)
        self._jobs[job.key] = _Aside(now + seconds, pods, self._look_of(job.key, pods))
        self._pods |= pods
        namespace = _namespace(job.key)
        recent = [when for when in self._recent.get(namespace, ()) if now - PERIOD < when <= now]
        self._recent[namespace] = [*recent, now]
        if len(recent) >= MOST_FAILURES:
            self._namespaces[namespace] = now + PERIOD
        return seconds

    def add_action(self, name: str, blamed: Iterable[str], now: float) -> float:
        """Leave out an action instead of the jobs that were blamed for its failures; for how many seconds."""
        for job in blamed:
            self._jobs.pop(job, None)
            self._failures.pop(job, None)
        self._collect_pods()
        seconds = self._back_off(name, LONGEST_OF_ACTION)
        self._actions[name] = now + seconds
        return seconds

    def _back_off(self, name: str, longest: float) -> float:
        failures = self._failures.get(name, 0)
        self._failures[name] = failures + 1
        seconds: float = min(longest, FIRST_BACKOFF * 2.0 ** min(failures, 30))
        return seconds

    # -- time and changes

    def bring_back(self, now: float) -> None:
        """Bring back what has been left out for long enough, and jobs that have changed or are gone."""
        for key, aside in list(self._jobs.items()):
            look = self._look_of(key, aside.pods)
            if look is None:
                self._failures.pop(key, None)
            if look is None or aside.until <= now or look != aside.looked:
                del self._jobs[key]
        self._collect_pods()
        for until in (self._namespaces, self._actions):
            for name in [name for name, end in until.items() if end <= now]:
                del until[name]
        if self._recent:
            self._recent = {name: times for name, times in self._recent.items() if times[-1] > now - PERIOD}

    def _look_of(self, key: str, pods: Iterable[str]) -> object:
        """All about a job that its owner can change, which is not what schedulers write; None if it is gone."""
        cluster, job = self._cluster, self._cluster.groups.jobs.get(key)
        group = job.group if job is not None else cluster.groups.groups.get(key)
        known: dict[str, Task] = {}
        for there in (cluster.waiting, cluster.reserved, cluster.running):
            known.update({pod: there[pod] for pod in (pods if job is None else job.tasks) if pod in there})
        if not known and group is None:
            return None
        if group is not None:
            group = msgspec.structs.replace(
                group, phase="", times=msgspec.structs.replace(group.times, stale_since=None)
            )
        return {pod: (task.pod.metadata, task.pod.spec) for pod, task in known.items()}, group

    def _collect_pods(self) -> None:
        self._pods = frozenset([pod for aside in self._jobs.values() for pod in aside.pods])

    def completed(self) -> None:
        """A cycle got by without failing at anything but what is left out."""
        if self._failures:
            aside = self._jobs.keys() | self._actions.keys()
            self._failures = {name: number for name, number in self._failures.items() if name in aside}

    def next_return(self) -> float | None:
        """When the next of them comes back; None if nothing is left out."""
        ends = [aside.until for aside in self._jobs.values()]
        return min([*ends, *self._namespaces.values(), *self._actions.values()], default=None)


class _Jobs:
    """The keys of jobs that are left out."""

    def __init__(self, jobs: dict[str, _Aside], namespaces: dict[str, float]) -> None:
        self._jobs = jobs
        self._namespaces = namespaces

    def __contains__(self, key: object) -> bool:
        return key in self._jobs or (bool(self._namespaces) and _namespace(str(key)) in self._namespaces)


def _namespace(key: str) -> str:
    return key.partition("/")[0]
