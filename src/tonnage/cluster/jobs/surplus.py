"""The surplus of gangs: pods beyond the minimum, which a gang can lose."""

from collections import Counter

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.subgroups import Path
from tonnage.cluster.task import Task


class Surplus:
    """The number of pods that jobs can lose and still run, while pods are taken one by one."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str | None, bool], int] = {}
        """The surplus left by job, in all and of each role, without the places that are only promised and with them."""
        self._taken: dict[tuple[str, bool], Counter[Path]] = {}
        """How many pods of each subgroup were taken, by job."""

    def take(self, job: Job, task: Task) -> bool:
        """Take a pod with a place if the job keeps its minimum without it, in all, of the pod's role and of subgroups.

        Pods with promised places do not make up for running ones that go.
        """
        group, promised = job.group, job.is_promised(task)
        role = group.role(task.pod) if group is not None and group.roles else None
        if self._of(job, None, promised) <= 0 or (role is not None and self._of(job, role, promised) <= 0):
            return False
        if job.subgroups is not None and not self._take_from_subgroup(job, task, promised):
            return False
        self._left[job.key, None, promised] -= 1
        if role is not None:
            self._left[job.key, role, promised] -= 1
        return True

    def _take_from_subgroup(self, job: Job, task: Task, promised: bool) -> bool:
        """Take a pod unless too few subgroups would be complete without it."""
        taken = self._taken.setdefault((job.key, promised), Counter())
        path, there = job.subgroup_of(task), job.with_place if promised else job.started
        before = job.tree.shortfalls(lambda path: there(path) - taken[path])
        taken[path] += 1
        if job.tree.shortfalls(lambda path: there(path) - taken[path]) == before:
            return True
        taken[path] -= 1
        return False

    def _of(self, job: Job, role: str | None, promised: bool) -> int:
        left = self._left.get((job.key, role, promised))
        if left is None:
            least = job.minimum if role is None else job.roles.get(role, 0)
            there = job.with_place(role) if promised else job.started(role)
            left = self._left[job.key, role, promised] = there - least
        return left
