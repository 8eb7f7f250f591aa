"""Best fit, a baseline of the literature: the pod goes to the node with the least left over.

A node scores the integer part of 100 × (1 − (CPU left / 128 + cards left / 8) / 2). A part of a card comes from the
fullest card that it fits on.
"""

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.baselines._freeamounts import LARGE_CPU, LARGE_GPUS, FreeAmounts
from tonnage.plugins.helpers.cardorder import every_task, fullest_first
from tonnage.plugins.helpers.podneeds import cpu_of, needs_of


class BestFit(Plugin, trusted=True):
    """Prefers the nodes that are fullest once the pod is placed."""

    name = "best-fit"

    def on_session_open(self, session: Session) -> None:
        self._free = FreeAmounts(session.cluster.columns)
        session.add_batch_node_order(self._score, key=needs_of)
        session.add_gpu_order(fullest_first, key=every_task)

    def _score(self, task: Task, nodes: Nodes) -> Array:
        cpu = (self._free.cpu(nodes) - cpu_of(task)) / LARGE_CPU
        gpus = (self._free.gpus(nodes) - self._free.asked_gpus(task, nodes)) / LARGE_GPUS
        return np.trunc((1 - (cpu * 0.5 + gpus * 0.5)) * 100)
