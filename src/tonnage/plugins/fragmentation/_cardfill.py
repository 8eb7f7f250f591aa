"""Card fill: how much of a free card pods of one card will use in the end, and the CPU that they take.

Pods arrive at a card in proportion to their popularity; one that fits takes its share, one that does not goes on, and
now and then the stream ends. With p the popularity, g the share and ε the chance that the stream ends before the next
pod, a card of which r is free will be filled by

    f(r) = Σ p (g + f(r − g)) / (Σ p + ε),    summed over the kinds whose share and CPU fit.

Its CPU follows from the same sum with the kinds' CPU instead of their share. Both are tables by accepted models, CPU of
the node and free thousandths of the card, so that a card costs one lookup.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.cluster.columns import Array, CardModel
from tonnage.plugins.fragmentation.typicalpods import TypicalPods
from tonnage.plugins.helpers.cardshares import WHOLE

END = 0.02
"""The chance that the stream of pods ends before the next one: it is about 50 pods long."""
STEPS = 1_000
"""A card's free share is looked up in thousandths, rounded down; requested shares are rounded up."""
MOST_KINDS = 256
"""Of more kinds than this the most popular count."""
MOST_CPUS = 32
"""Kinds may differ in more amounts of CPU than this; then neighbouring ones count as the larger."""

_NEXT_TO_NOTHING = 1e-9
"""CPU that every node has, so that kinds without CPU fit on a node without."""


class CardFill:
    """The tables of expected fill and CPU."""

    def __init__(self, workload: TypicalPods, models: Sequence[CardModel]) -> None:
        popular = sorted(workload, key=lambda pod: -pod.popularity)
        alone = [pod for pod in popular if pod.kind.gpus == 1][:MOST_KINDS]
        types = [model.type for model in models]
        wanted = [pod.kind.accepted(types) for pod in alone]
        # Models that the same kinds accept have one table.
        signatures = [tuple([accepted[number] for accepted in wanted]) for number in range(len(models))]
        tables = list(dict.fromkeys(signatures))
        self._cpus = _thresholds([pod.kind.cpu for pod in alone])
        ranks = len(self._cpus) + 1
        self._rank_size = STEPS + 1
        self._table_of_model = np.array([tables.index(signature) for signature in signatures]) * (
            ranks * self._rank_size
        )
        steps = [max(1, -(-pod.kind.share * STEPS // WHOLE)) for pod in alone]
        shares = np.array(sorted(set(steps)), np.intp)
        arriving = np.zeros((len(shares), len(tables), ranks))
        cpu_arriving = np.zeros_like(arriving)
        for number, (pod, step) in enumerate(zip(alone, steps, strict=True)):
            place, rank = int(shares.searchsorted(step)), int(self._cpus.searchsorted(pod.kind.cpu)) + 1
            accepting = [position for position, signature in enumerate(tables) if signature[number]]
            arriving[place, accepting, rank:] += pod.popularity
            cpu_arriving[place, accepting, rank:] += pod.popularity * pod.kind.cpu
        fill, cpu = _pour(shares, arriving, cpu_arriving)
        self._table = np.ascontiguousarray((fill + 1j * cpu).transpose(1, 2, 0)).ravel()

    def of(self, shares: Array, model: Array, cpu: Array) -> Array:
        """The expected fill of each card, in cards, and the CPU for it, in millicores, as real and imaginary part.

        As one number they take one lookup, and one sum over the cards of a node.
        """
        rank = self._cpus.searchsorted(cpu, side="right") * self._rank_size
        place = self._table_of_model.take(model) + rank + shares * STEPS // WHOLE
        result: Array = self._table.take(place)
        return result


def _thresholds(cpus: Sequence[int]) -> Array:
    """The different amounts of CPU, thinned out if there are too many; the largest always counts."""
    found = sorted(set(cpus))
    if len(found) > MOST_CPUS:
        found = [found[-1 - round(number * (len(found) - 1) / (MOST_CPUS - 1))] for number in range(MOST_CPUS)][::-1]
    return np.array(found, np.int64)


def _pour(shares: Array, arriving: Array, cpu_arriving: Array) -> tuple[Array, Array]:
    """Fill and CPU by free thousandths, table and rank of CPU."""
    fill = np.zeros((STEPS + 1, *arriving.shape[1:]))
    cpu = np.zeros_like(fill)
    # Sums over the smallest shares, as many as fit.
    own = (arriving * (shares / STEPS)[:, None, None]).cumsum(axis=0)
    own_cpu, chance = cpu_arriving.cumsum(axis=0), arriving.cumsum(axis=0) + END
    fitting = shares.searchsorted(np.arange(STEPS + 1), side="right")
    for free in range(1, STEPS + 1):
        count = int(fitting[free])
        if count:
            left, weights = free - shares[:count], arriving[:count]
            fill[free] = (own[count - 1] + np.add.reduce(weights * fill[left], axis=0)) / chance[count - 1]
            cpu[free] = (own_cpu[count - 1] + np.add.reduce(weights * cpu[left], axis=0)) / chance[count - 1]
    return fill, cpu


def within(fill: Array, cpu: Array) -> Array:
    """What of the fill of nodes remains if they have less CPU than it takes; smooth, because demand varies."""
    has, asks = cpu * 1e-3 + _NEXT_TO_NOTHING, fill.imag * 1e-3
    has2, asks2 = has * has, asks * asks
    result: Array = fill.real * has / np.sqrt(np.sqrt(has2 * has2 + asks2 * asks2))
    return result
