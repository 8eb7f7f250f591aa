"""The surplus of gangs: pods beyond the minimum, which a gang can lose."""

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task


class Surplus:
    """The number of pods that jobs can lose and still run, while pods are taken one by one."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str | None], int] = {}
        """The surplus left by job, in all and of each role."""

    def take(self, job: Job, task: Task) -> bool:
        """Take a running pod of a job if the job keeps its minimum without it, in all and of the pod's role."""
        group = job.group
        role = group.role(task.pod) if group is not None and group.roles else None
        if self._of(job, None) <= 0 or (role is not None and self._of(job, role) <= 0):
            return False
        self._left[job.key, None] -= 1
        if role is not None:
            self._left[job.key, role] -= 1
        return True

    def _of(self, job: Job, role: str | None) -> int:
        left = self._left.get((job.key, role))
        if left is None:
            least = job.minimum if role is None else job.roles.get(role, 0)
            left = self._left[job.key, role] = job.started(role) - least
        return left
