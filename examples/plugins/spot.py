"""Keeps pods that must not be interrupted off spot nodes, and leaves spot nodes for last."""

from tonnage.cluster.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.pernode import NodeView
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.session import Session


class SpotInstances(Plugin):
    """Pods of a high priority stay off spot nodes; all others go there last."""

    name = "spot-instance-manager"

    class Arguments(PluginArguments):
        """Which nodes are spot instances, from which priority on pods stay off them, and how much others are liked."""

        label: str = "instance-type"
        value: str = "spot"
        priority: int = 1000
        bonus: float = 1000.0

    def on_session_open(self, session: Session) -> None:
        session.add_predicate(self.keep_off)
        session.add_node_order(self.prefer_others)

    def is_spot(self, node: NodeView) -> bool:
        return node.labels.get(self.args.label) == self.args.value

    def keep_off(self, task: Task, job: Job, node: NodeView) -> Reason | None:
        if task.priority >= self.args.priority and self.is_spot(node):
            return Reason("SpotInstance", f"{task.key} must not be interrupted and {node.name} is a spot instance")
        return None

    def prefer_others(self, task: Task, node: NodeView) -> float:
        return 0.0 if self.is_spot(node) else self.args.bonus
