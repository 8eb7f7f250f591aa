"""Random placement, a baseline of the literature: any node that fits, and any of its cards.

The random order is a hash of the seed, the pod and the node, so that the same input gives the same output.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.plugins.helpers.cardorder import every_task
from tonnage.plugins.helpers.hashes import hash_of

_MOST = 100.0
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""The multipliers of splitmix64."""


class RandomPlacement(Plugin, trusted=True):
    """Scores nodes and cards by a hash."""

    name = "random"

    class Arguments(PluginArguments):
        """Another seed gives every pod another order."""

        seed: int = 0

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._layout = -1
        self._names = np.zeros(0, np.uint64)
        session.add_batch_node_order(self._score, key=every_task, every_pod=True)
        session.add_gpu_order(self._order_cards, key=every_task)

    def _score(self, task: Task, nodes: Nodes) -> Array:
        columns = self._cluster.columns
        if self._layout != columns.layout:
            self._layout = columns.layout
            self._names = np.array([hash_of(state.name) for state in self._cluster.states], np.uint64)
        return _between_0_and_1(self._names ^ np.uint64(hash_of(self._of(task)))) * _MOST

    def _order_cards(
        self, task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> Sequence[float]:
        return [hash_of(f"{self._of(task)}/{node.name}/{card}") for card in fitting]

    def _of(self, task: Task) -> str:
        return f"{self.args.seed}/{task.key}"


def _between_0_and_1(numbers: Array) -> Array:
    """A pseudo-random number in [0, 1) for each 64-bit number."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    mixed ^= mixed >> np.uint64(31)
    result: Array = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return result
