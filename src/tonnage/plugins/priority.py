"""Priority: what is more important goes first."""

from tonnage.cluster.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


class Priority(Plugin):
    """Orders jobs and the pods of a job by their priority."""

    name = "priority"

    def on_session_open(self, session: Session) -> None:
        session.add_job_order(self._jobs)
        session.add_task_order(self._tasks)

    @staticmethod
    def _jobs(one: Job, other: Job) -> int:
        return other.priority - one.priority

    @staticmethod
    def _tasks(one: Task, other: Task) -> int:
        return other.priority - one.priority
