"""Pods that were looked at in vain: they are passed over until something changes in their favour.

What frees room or changes nodes, queues or quotas lets all of them be looked at again; a change of a job lets its own
pods, and a pod that comes to a node lets those with rules about other pods. A pod whose bind failed is passed over for
a while, longer each time.
"""

from collections.abc import Callable, Iterable, Sequence

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class UnschedulablePods:
    """Which waiting pods need not be looked at now."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._in_vain: dict[str, str] = {}
        """Pods that found no place, with the name of their job."""
        self._jobs: dict[str, set[str]] = {}
        self._with_rules: set[str] = set()
        """Those of them for which it matters what runs beside them."""
        self._failures: dict[str, int] = {}
        """How often in a row the bind of a pod failed."""
        self._pauses: dict[str, float] = {}
        """Until when pods are passed over whose bind failed."""

    def __contains__(self, key: object) -> bool:
        return key in self._in_vain or key in self._pauses

    def __len__(self) -> int:
        return len(self._in_vain.keys() | self._pauses.keys())

    # -- what came of looking

    def found_nothing(self, decisions: Iterable[Decision]) -> None:
        """These pods have no place."""
        for decision in decisions:
            key = decision.task.key
            self._in_vain[key] = decision.job.key
            self._jobs.setdefault(decision.job.key, set()).add(key)
            if decision.task.rules is not None:
                self._with_rules.add(key)

    def failed(self, keys: Sequence[str]) -> float:
        """The bind of the first of these pods failed, and the others cannot start without it: how long they pause."""
        failures = self._failures.get(keys[0], 0)
        self._failures[keys[0]] = failures + 1
        pause: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 30))
        self._pauses.update(dict.fromkeys(keys, self._clock() + pause))
        return pause

    def end_pauses(self) -> bool:
        """Let pods be looked at again whose time has come; whether there are any."""
        now = self._clock()
        over = [key for key, until in self._pauses.items() if until <= now]
        for key in over:
            del self._pauses[key]
        return bool(over)

    # -- what changes in their favour

    def look_again(self) -> None:
        """There may be room for anybody."""
        self._in_vain.clear()
        self._jobs.clear()
        self._with_rules.clear()

    def look_at_job(self, job: str) -> None:
        """A job is not what it was."""
        for key in self._jobs.pop(job, ()):
            self._in_vain.pop(key, None)
            self._with_rules.discard(key)

    def look_beside(self, task: Task) -> bool:
        """A pod has come to a node: whether that may help those with rules about other pods."""
        helped = self._with_rules - {task.key}
        for key in helped:
            self.look_at_job(self._in_vain.get(key, ""))
        self._with_rules -= helped
        return bool(helped)

    def forget(self, key: str) -> None:
        """A pod is gone or has a node."""
        self.found_place(key)
        self._failures.pop(key, None)
        self._pauses.pop(key, None)

    def found_place(self, key: str) -> None:
        """A pod has a place after all."""
        job = self._in_vain.pop(key, None)
        if job is None:
            return
        self._with_rules.discard(key)
        pods = self._jobs.get(job, set())
        pods.discard(key)
        if not pods:
            self._jobs.pop(job, None)
