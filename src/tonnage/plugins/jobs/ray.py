"""KAI's ray: the head of a Ray cluster is placed before its workers."""

from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session

LABEL, HEAD = "ray.io/node-type", "head"


class Ray(Plugin, trusted=True):
    """Orders the pods of a Ray cluster, the head first."""

    name = "ray"

    def on_session_open(self, session: Session) -> None:
        session.add_task_order(self._order)

    @staticmethod
    def _order(one: Task, other: Task) -> int:
        return _is_head(other) - _is_head(one)


def _is_head(task: Task) -> bool:
    return task.pod.labels.get(LABEL) == HEAD
