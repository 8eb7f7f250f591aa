"""Priority: what is more important goes first, and may take the place of what is less so in its queue."""

from collections.abc import Sequence

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


class Priority(Plugin):
    """Orders jobs and the pods of a job by their priority; the lower must make room for the higher."""

    name = "priority"

    def on_session_open(self, session: Session) -> None:
        session.add_job_order(self._jobs)
        session.add_task_order(self._tasks)
        session.add_preemptable(self.less_important)
        self._session = session

    @staticmethod
    def _jobs(one: Job, other: Job) -> int:
        return other.priority - one.priority

    @staticmethod
    def _tasks(one: Task, other: Task) -> int:
        return other.priority - one.priority

    def less_important(self, job: Job, victims: Sequence[Task]) -> list[Task]:
        """Pods of jobs of lower priority; of the job itself those below its most important pod that waits."""
        own = max([task.priority for task in job.tasks_that(PodStatus.WAITING)], default=job.priority)
        return [task for task in victims if self._is_below(task, job, own)]

    def _is_below(self, task: Task, job: Job, own: int) -> bool:
        other = self._session.job_of(task)
        return task.priority < own if other.key == job.key else other.priority < job.priority
