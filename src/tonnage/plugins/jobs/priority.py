"""Priority: jobs and pods of higher priority go first, and preempt those of lower priority in their queue."""

from collections.abc import Sequence

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


class Priority(Plugin, trusted=True):
    """Orders jobs, and the pods of a job, by priority; lower priorities are preemptable by higher ones."""

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
        """Victims in jobs of lower priority; of the job itself, those below its highest waiting pod."""
        own = max([task.priority for task in job.tasks_that(PodStatus.WAITING)], default=job.priority)
        return [task for task in victims if self._is_below(task, job, own)]

    def _is_below(self, task: Task, job: Job, own: int) -> bool:
        other = self._session.job_of(task)
        return task.priority < own if other.key == job.key else other.priority < job.priority
