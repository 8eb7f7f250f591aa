"""KAI's nominated node: a pod goes to the node in `status.nominatedNodeName`, if it fits there."""

from collections.abc import Hashable

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import UNCONCERNED
from tonnage.framework.session import Session

BONUS = 10_000_000.0


class NominatedNode(Plugin, trusted=True):
    """Prefers the node that evictions or a user nominated for the pod."""

    name = "nominatednode"

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        session.add_batch_node_order(self._score, key=self._key)

    @staticmethod
    def _key(task: Task) -> Hashable:
        return task.pod.status.nominatedNodeName or UNCONCERNED

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        name = task.pod.status.nominatedNodeName
        if not name or name not in self._cluster.nodes:
            return None
        return np.where(nodes.pick(self._cluster.mask([name])), BONUS, 0.0)
