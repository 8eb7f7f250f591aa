"""KAI's gpusharingorder: a part of a card goes to a node where a shared card has room, before one is opened."""

from collections.abc import Hashable
from functools import lru_cache

import numpy as np

from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Nodes
from tonnage.cluster.task import Demand, Task
from tonnage.devices.base import PLAIN_MODE, WHOLE_CARD, DeviceRequest
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import UNCONCERNED, Reads
from tonnage.framework.session import Session
from tonnage.plugins.helpers.cardcounts import CardCounts

BONUS = 10_000.0


class GpuSharingOrder(Plugin, trusted=True):
    """Prefers nodes where a card in use has room for the part that a pod asks for."""

    name = "gpusharingorder"

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._cards = CardCounts(session.cluster)
        session.add_batch_node_order(self._score, key=self._key, reads=Reads.LOOK)

    @staticmethod
    def _key(task: Task) -> Hashable:
        return _parts(task.demands) or UNCONCERNED

    def _score(self, task: Task, nodes: Nodes) -> Array:
        found = np.logical_or.reduce([self._has_room(nodes, request) for request in _parts(task.demands)])
        return np.where(found, BONUS, 0.0)

    def _has_room(self, nodes: Nodes, request: DeviceRequest) -> Array:
        """Whether each node has a card in use that the request fits on once terminating pods have left."""
        cards, leaving = nodes.cards, self._cards.leaving(nodes)
        used, free = cards.total[SLOTS] - cards.free[SLOTS], cards.free[MEMORY]
        if leaving is not None:
            used, free = used - leaving[SLOTS], free + leaving[MEMORY]
        fits = (used > 0) & (free >= request.memory_on(cards.total[MEMORY])) & (cards.free[SLOTS] > 0)
        fits &= cards.free[CORES] >= np.maximum(1, request.cores_on(cards.total[CORES]))
        fits &= self._cards.owned(cards, (self._cluster.vendor_numbers[request.vendor],))
        if not request.shares and nodes.columns.plain:
            plain = np.array([model.mode == PLAIN_MODE for model in nodes.columns.models])
            fits &= ~plain.take(cards.model)
        found: Array = fits.any(axis=0)
        return found


@lru_cache(maxsize=1024)
def _parts(demands: tuple[Demand, ...]) -> tuple[DeviceRequest, ...]:
    """The requests of a pod for parts of cards."""
    return tuple([request for demand in demands for request in demand.requests if _is_part(request)])


def _is_part(request: DeviceRequest) -> bool:
    """Whether a request takes only a part of its cards."""
    return request.shares or (request.cores < WHOLE_CARD and request.percentage != WHOLE_CARD)
