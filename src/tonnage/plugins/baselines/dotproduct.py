"""The dot product (Tetris), a baseline of the literature: nodes whose free vector aligns least with the pod's.

CPU as a fraction of 128 and cards as a fraction of 8 form a vector of what is free on a node and one of what the pod
asks for. A node scores the integer part of 100 × (1 − their dot product / 2). A part of a card comes from the fullest
card that it fits on.
"""

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.baselines._freeamounts import LARGE_CPU, LARGE_GPUS, FreeAmounts
from tonnage.plugins.helpers.cardorder import every_task, fullest_first
from tonnage.plugins.helpers.podneeds import cpu_of, needs_of


class DotProduct(Plugin, trusted=True):
    """Prefers nodes that have little of what the pod asks much of."""

    name = "dot-product"

    def on_session_open(self, session: Session) -> None:
        self._free = FreeAmounts(session.cluster.columns)
        session.add_batch_node_order(self._score, key=needs_of)
        session.add_gpu_order(fullest_first, key=every_task)

    def _score(self, task: Task, nodes: Nodes) -> Array:
        cpu = (self._free.cpu(nodes) / LARGE_CPU) * (cpu_of(task) / LARGE_CPU)
        gpus = (self._free.gpus(nodes) / LARGE_GPUS) * (self._free.asked_gpus(task, nodes) / LARGE_GPUS)
        return np.trunc(100 * (1 - (cpu + gpus) / 2))
