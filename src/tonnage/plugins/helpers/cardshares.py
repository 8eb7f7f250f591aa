"""Card shares: the free part of each card, and the part that a request takes, as one number each.

Memory or compute may run out first, so a card's free share is the smaller of its two free parts; a card without a free
slot, or one that takes no new pods, has none. A request's share is the larger of its two parts. Shares are whole
millionths of a card, so that their sums are exact.
"""

from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Cards, Columns
from tonnage.devices.base import PLAIN_MODE, WHOLE_CARD, Device, DeviceRequest

WHOLE = 1_000_000
"""A whole card."""


class CardSize(NamedTuple):
    """The properties of a card that shares depend on."""

    memory: int
    cores: int
    is_plain: bool


def size_of(device: Device) -> CardSize:
    """The size of a card."""
    return CardSize(device.memory, device.cores, device.mode == PLAIN_MODE)


def share_of(request: DeviceRequest, size: CardSize) -> int:
    """The share of a card that a request takes."""
    memory, cores, is_plain = size
    if is_plain and not request.shares:
        return WHOLE
    of_memory = int(request.memory_on(memory)) * WHOLE // memory if memory else 0
    of_cores = min(request.cores, WHOLE_CARD) * WHOLE // cores if cores else 0
    return min(WHOLE, max(of_memory, of_cores))


class CardShares:
    """The free shares of cards, over arrays of (cards, nodes)."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._takes_pods = np.zeros(0, np.int64)
        self._plain = np.zeros(0, np.bool_)

    def of(self, cards: Cards) -> Array:
        """The free share of each card; 0 where there is none."""
        return self.of_amounts(cards.free, cards.total, cards.model)

    def of_amounts(self, free: Array, total: Array, model: Array) -> Array:
        """The same for cards with these free amounts."""
        self._see_models()
        parts = free[CORES:] * WHOLE // np.maximum(total[CORES:], 1)
        if self._columns.incomplete:
            parts = np.where(total[CORES:] > 0, parts, WHOLE)
        share = np.maximum(np.minimum(parts[0], parts[1]), 0)
        result: Array = share * self._takes_pods.take(model) * (free[SLOTS] > 0)
        return result

    def after(self, request: DeviceRequest, free: Array, total: Array, model: Array) -> Array:
        """The free share of each card once the request has a part of it."""
        return self.of_amounts(self.left(request, free, total, model), total, model)

    def left(self, request: DeviceRequest, free: Array, total: Array, model: Array) -> Array:
        """What is free of each card once the request has a part of it; below 0 where it does not fit."""
        self._see_models()
        memory: Array | int = request.memory_on(total[MEMORY])
        cores: Array | int = min(request.cores, WHOLE_CARD)
        if self._columns.plain and not request.shares:
            plain = self._plain.take(model)
            memory, cores = np.where(plain, total[MEMORY], memory), np.where(plain, total[CORES], cores)
        left: Array = free.copy()
        left[SLOTS] -= 1
        left[MEMORY] -= memory
        left[CORES] -= cores
        return left

    def _see_models(self) -> None:
        models = self._columns.models
        if len(self._takes_pods) < len(models):
            self._takes_pods = np.array([model.vendor >= 0 and not model.state for model in models], np.int64)
            self._plain = np.array([model.mode == PLAIN_MODE for model in models], np.bool_)
