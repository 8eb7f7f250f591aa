"""Placing a pod on nodes in thought: which of their cards it could get, and what would be free afterwards."""

from collections.abc import Hashable

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Cards
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import INIT, Task
from tonnage.devices.base import DeviceRequest
from tonnage.model.resources import CPU
from tonnage.plugins.helpers.cardrules import CARD_FITS, CardAsk
from tonnage.plugins.helpers.cardshares import WHOLE, CardShares

Requests = tuple[DeviceRequest, ...]


def lasting_requests(task: Task) -> Requests:
    """What a pod asks of cards for as long as it runs; what init containers ask for if nothing else does."""
    lasting = tuple([request for demand in task.demands if demand.kind != INIT for request in demand.requests])
    return lasting or tuple([request for demand in task.demands for request in demand.requests])


def cpu_of(task: Task) -> int:
    """Processors that a pod requests, in thousandths."""
    return dict(task.requests).get(CPU, 0)


def needs_of(task: Task) -> Hashable:
    """A key for answers that depend on what a pod needs of processors and cards."""
    return cpu_of(task), task.demands, task.constraints


class Trial:
    """Which cards fit a request, and what is free of them once it has been given some."""

    def __init__(self, cluster: Cluster) -> None:
        self.shares = CardShares(cluster.columns)
        self._cluster = cluster
        self._asks: Memo[Hashable, CardAsk] = Memo()

    def each(self, task: Task, request: DeviceRequest, cards: Cards) -> tuple[Array, Array]:
        """Which cards the request fits on, and the share that it would leave free of each."""
        fits = self._ask(task, request).codes(cards, self._cluster.columns) == CARD_FITS
        return fits, self.shares.after(request, cards.free, cards.total, cards.model)

    def all_together(self, task: Task, cards: Cards, shares: Array) -> Array:
        """What is left of free shares once each request got as many cards as it wants, the fullest ones first."""
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
