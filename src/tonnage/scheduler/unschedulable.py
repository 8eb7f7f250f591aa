"""UnschedulablePods: the pending pods that cycles skip until something changes in their favour.

A change that frees room, or of a node, queue or quota, makes cycles retry all of them; a change of a job retries the
job's own pods, and a pod that is placed retries pods with inter-pod affinity or topology spread. A pod whose bind
failed is in backoff for 1 to 60 seconds, twice as long each time.
"""

from collections.abc import Callable, Iterable, Sequence

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 60.0


class UnschedulablePods:
    """The pods to skip: those that found no place, and those in backoff."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._job_of: dict[str, str] = {}
        """Pods that found no place, each with its job."""
        self._jobs: dict[str, set[str]] = {}
        self._with_rules: set[str] = set()
        """Pods that found no place and have rules about other pods."""
        self._failures: dict[str, int] = {}
        """Binds of a pod that failed in a row."""
        self._backoffs: dict[str, float] = {}
        """When the backoff of each pod ends."""

    def __contains__(self, key: object) -> bool:
        return key in self._job_of or key in self._backoffs

    def __len__(self) -> int:
        return len(self._job_of.keys() | self._backoffs.keys())

    # -- what cycles and binds found

    def add(self, decisions: Iterable[Decision]) -> None:
        """Skip pods that found no place."""
        for decision in decisions:
            key = decision.task.key
            self._job_of[key] = decision.job.key
            self._jobs.setdefault(decision.job.key, set()).add(key)
            if decision.task.rules is not None:
                self._with_rules.add(key)

    def back_off(self, keys: Sequence[str]) -> float:
        """Skip the first pod, whose bind failed, and the others, which cannot start without it; for how long."""
        failures = self._failures.get(keys[0], 0)
        self._failures[keys[0]] = failures + 1
        backoff: float = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures, 30))
        self._backoffs.update(dict.fromkeys(keys, self._clock() + backoff))
        return backoff

    def end_backoffs(self) -> bool:
        """End the backoffs that are over; whether there were any."""
        now = self._clock()
        over = [key for key, until in self._backoffs.items() if until <= now]
        for key in over:
            del self._backoffs[key]
        return bool(over)

    # -- what changes in their favour

    def retry_all(self) -> None:
        """Retry every pod that found no place."""
        self._job_of.clear()
        self._jobs.clear()
        self._with_rules.clear()

    def retry_job(self, job: str) -> None:
        """Retry the pods of a job that has changed."""
        for key in self._jobs.pop(job, ()):
            self._job_of.pop(key, None)
            self._with_rules.discard(key)

    def retry_with_rules(self, task: Task) -> bool:
        """Retry pods with rules about other pods, because a pod came to a node; whether there are any."""
        retried = self._with_rules - {task.key}
        for key in retried:
            self.retry_job(self._job_of.get(key, ""))
        self._with_rules -= retried
        return bool(retried)

    def forget(self, key: str) -> None:
        """Forget a pod that is gone or has a node."""
        self.remove(key)
        self._failures.pop(key, None)
        self._backoffs.pop(key, None)

    def remove(self, key: str) -> None:
        """A pod found a place."""
        job = self._job_of.pop(key, None)
        if job is None:
            return
        self._with_rules.discard(key)
        pods = self._jobs.get(job, set())
        pods.discard(key)
        if not pods:
            self._jobs.pop(job, None)
