"""KAI's taskorder: the pods of a job in the order of a label."""

from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session

LABEL = "kai.scheduler/task-priority"


class TaskOrder(Plugin, trusted=True):
    """Orders the pods of a job by the number in a label, the larger first; pods without one come last."""

    name = "taskorder"

    def on_session_open(self, session: Session) -> None:
        session.add_task_order(self._order)

    @staticmethod
    def _order(one: Task, other: Task) -> int:
        mine, others = _priority(one), _priority(other)
        return (mine < others) - (mine > others)


def _priority(task: Task) -> float:
    """The number in the label; a text that is no integer counts as no label."""
    try:
        return int(task.pod.labels[LABEL][:20])
    except (KeyError, ValueError):
        return float("-inf")
