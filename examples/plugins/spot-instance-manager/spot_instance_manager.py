"""Keeps jobs that must not be preempted off spot nodes, and leaves spot nodes for last."""

from tonnage.api import Job, NodeView, Plugin, PluginArguments, Reason, Session, Task


class SpotInstances(Plugin):
    """Jobs that must not be preempted stay off spot nodes; all others go there last."""

    name = "spot-instance-manager"

    class Arguments(PluginArguments):
        """Which nodes are spot instances, and how much all other nodes are preferred."""

        label: str = "kai.scheduler/instance-type"
        value: str = "spot"
        bonus: float = 1000.0

    def on_session_open(self, session: Session) -> None:
        session.add_predicate(self.keep_off)
        session.add_node_order(self.prefer_others)

    def keep_off(self, task: Task, job: Job, node: NodeView) -> Reason | None:
        if job.preemptible or not self.is_spot(node):
            return None
        return Reason("SpotInstance", f"{task.key} must not be preempted and {node.name} is a spot instance")

    def prefer_others(self, task: Task, node: NodeView) -> float:
        return 0.0 if self.is_spot(node) else self.args.bonus

    def is_spot(self, node: NodeView) -> bool:
        return node.labels.get(self.args.label) == self.args.value
