"""Trial placements: the cards that fit a request, and what stays free of them once the pod is there."""

from collections.abc import Hashable

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Cards
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.plugins.helpers.cardrules import CARD_FITS, CardAsk
from tonnage.plugins.helpers.cardshares import WHOLE, CardShares
from tonnage.plugins.helpers.podneeds import lasting_requests


class Trial:
    """Trial placements: the cards that fit a request, and what stays free of them once the pod is there."""

    def __init__(self, cluster: Cluster) -> None:
        self.shares = CardShares(cluster.columns)
        self._cluster = cluster
        self._asks: Memo[Hashable, CardAsk] = Memo()

    def each(self, task: Task, request: DeviceRequest, cards: Cards) -> tuple[Array, Array]:
        """The cards that the request fits on, and the share that it would leave free of each."""
        fits = self._ask(task, request).codes(cards, self._cluster.columns) == CARD_FITS
        return fits, self.shares.after(request, cards.free, cards.total, cards.model)

    def all_together(self, task: Task, cards: Cards, shares: Array) -> Array:
        """The free shares once each request has its cards, taken from the fullest first."""
        left = shares
        for request in lasting_requests(task):
            fits, after = self.each(task, request, cards)
            taken = shares - after
            fits &= left >= taken
            order = np.where(fits, left, WHOLE + 1).argsort(axis=0, kind="stable")[: request.count]
            chosen = np.zeros_like(fits)
            np.put_along_axis(chosen, order, True, axis=0)
            left = left - taken * (chosen & fits)
        return left

    def _ask(self, task: Task, request: DeviceRequest) -> CardAsk:
        key = (request, task.constraints)
        known = self._asks.get(key)
        if known is None:
            number = self._cluster.vendor_numbers[request.vendor]
            known = self._asks.keep(key, CardAsk(request, task, self._cluster.vendors[number], number))
        return known
