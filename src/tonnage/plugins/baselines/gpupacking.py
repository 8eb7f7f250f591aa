"""GPU packing, a baseline of the literature: cards in use first, then idle cards of used nodes, then empty nodes.

| the pod would use | score |
|---|---|
| only cards in use | 100 − their free percentages added up / 10, at least 50 |
| idle cards of a node with cards in use | 50 − the number of them, at least 33 |
| cards of a node whose cards are all idle | 33 − the number of its cards, at least that number |

All scores are integers. Pods without cards are not scored.
"""

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.baselines._freeamounts import MILLI, FreeAmounts
from tonnage.plugins.helpers.cardorder import every_task, fullest_first
from tonnage.plugins.helpers.podneeds import lasting_requests

_MOST, _HALF, _THIRD = 100, 50, 33
_UNFIT = 2 * MILLI


class GpuPacking(Plugin, trusted=True):
    """Prefers not to open another card or node."""

    name = "gpu-packing"

    def on_session_open(self, session: Session) -> None:
        self._free = FreeAmounts(session.cluster.columns)
        session.add_batch_node_order(self._score, key=lasting_requests)
        session.add_gpu_order(fullest_first, key=every_task)

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        requests = lasting_requests(task)
        return self._score_request(requests[0], nodes) if requests else None

    def _score_request(self, request: DeviceRequest, nodes: Nodes) -> Array:
        shares, asked = self._free.shares(nodes), self._free.asked_share(request, nodes)
        cards = np.add.reduce(nodes.cards.model > 0, axis=0)
        idle = np.add.reduce(shares == MILLI, axis=0)
        used = np.sort(np.where(shares >= asked, shares, _UNFIT), axis=0)[: request.count]
        opened = np.add.reduce(used == MILLI, axis=0)
        packed = np.maximum(_MOST - np.add.reduce(used * 100 // MILLI, axis=0) // 10, _HALF)
        score = np.where(opened > 0, np.maximum(_HALF - opened, _THIRD), packed)
        result: Array = np.where(idle == cards, np.maximum(_THIRD - idle, idle), score)
        return result
