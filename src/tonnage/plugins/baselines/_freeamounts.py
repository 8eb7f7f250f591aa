"""Free CPU and cards of nodes, as the literature's baselines measure them.

The baselines were published for nodes of up to 128 CPUs and 8 cards and normalize by those sizes. Cards count in
thousandths, as in the publications.
"""

import numpy as np

from tonnage.cluster.columns import CORES, MEMORY, Array, Columns, Nodes
from tonnage.cluster.task import Task
from tonnage.devices.base import PLAIN_MODE, DeviceRequest
from tonnage.model.resources import CPU
from tonnage.plugins.helpers.cardshares import WHOLE, CardShares
from tonnage.plugins.helpers.podneeds import lasting_requests

MILLI = 1_000
"""Thousandths of a card or a CPU."""
LARGE_CPU, LARGE_GPUS = 128 * MILLI, 8 * MILLI
"""CPU and cards of a large node."""


class FreeAmounts:
    """Free amounts of nodes and requests of pods, in thousandths of CPUs and cards."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._shares = CardShares(columns)

    def shares(self, nodes: Nodes) -> Array:
        """The free part of each card, as (cards, nodes)."""
        return self._shares.of(nodes.cards) * MILLI // WHOLE

    def gpus(self, nodes: Nodes) -> Array:
        """The sum of the free parts of each node's cards."""
        result: Array = np.add.reduce(self.shares(nodes), axis=0)
        return result

    def cpu(self, nodes: Nodes) -> Array:
        """The free CPU of each node."""
        result: Array = nodes.free[self._columns.resources[CPU]]
        return result

    def asked_share(self, request: DeviceRequest, nodes: Nodes) -> Array:
        """The part of a card that a request takes on each node, measured by the node's first card."""
        total = nodes.cards.total[:, 0]
        memory, cores = np.maximum(total[MEMORY], 1), np.maximum(total[CORES], 1)
        share: Array = np.maximum(request.memory_on(total[MEMORY]) * MILLI // memory, request.cores * MILLI // cores)
        if self._columns.plain and not request.shares:
            plain = np.array([model.mode == PLAIN_MODE for model in self._columns.models])
            share = np.where(plain.take(nodes.cards.model[0]), MILLI, share)
        result: Array = np.minimum(share, MILLI)
        return result

    def asked_gpus(self, task: Task, nodes: Nodes) -> Array | int:
        """The cards that a pod takes on each node."""
        return sum([self.asked_share(request, nodes) * request.count for request in lasting_requests(task)])
