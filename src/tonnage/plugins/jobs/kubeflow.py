"""KAI's kubeflow: the master or launcher of a training job is placed before its workers."""

from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session

LABEL = "training.kubeflow.org/job-role"
LEADERS = ("master", "launcher")


class Kubeflow(Plugin, trusted=True):
    """Orders the pods of a Kubeflow job, the master or launcher first."""

    name = "kubeflow"

    def on_session_open(self, session: Session) -> None:
        session.add_task_order(self._order)

    @staticmethod
    def _order(one: Task, other: Task) -> int:
        return _leads(other) - _leads(one)


def _leads(task: Task) -> bool:
    return task.pod.labels.get(LABEL) in LEADERS
