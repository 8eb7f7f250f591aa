"""Places: how many more pods of each scarce kind the nodes have room for, and what losing one costs.

A node has min(CPU / CPU of the kind, cards with the kind's share free / its cards) places for a kind, both rounded
down. Kinds of whole cards, of several cards or of certain models count: parts of any card are never scarce. With H the
places in the cluster and D the pods of the kind to expect, a place is worth the kind's cards × min(1, D / H)^γ.

The weights change slowly, so they are kept in tables by CPU and number of cards and refreshed now and then.
"""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import Array, CardModel
from tonnage.plugins.fragmentation.typicalpods import PodKind, TypicalPod, TypicalPods
from tonnage.plugins.helpers.cardshares import WHOLE

STEEPNESS = 2.0
"""γ: how fast a place gains worth as places become few."""
RESERVE = 2.0
"""How many standard deviations of the number of pods of a kind in a full cluster are expected on top."""
MOST_COUNTED = 63
"""Of one node no more places than this count."""
MOST_KINDS = 256
"""Of more scarce kinds than this those count that ask for the most cards."""
_NEGLIGIBLE = 1e-3
"""Kinds whose places are worth less, in cards, are left out."""


class ScarceKind(NamedTuple):
    """The places for a kind in the whole cluster."""

    kind: PodKind
    places: int
    expected: float
    """Pods of the kind to expect."""
    worth: float
    """What losing one place costs, in cards."""

    @property
    def name(self) -> str:
        """The kind as a sentence names it."""
        kind = self.kind
        share = "" if kind.share == WHOLE else f" of {100 * kind.share / WHOLE:.3g} %"
        models = f" of {' or '.join(kind.models)}" if kind.models else ""
        return f"{kind.gpus} {'card' if kind.gpus == 1 else 'cards'}{share}{models} and {kind.cpu / 1000:.3g} CPUs"


class PlaceGroup:
    """Kinds that want the same share of cards of the same models."""

    def __init__(self, pods: Sequence[TypicalPod], models: Sequence[CardModel], width: int) -> None:
        self.pods = pods
        kind = pods[0].kind
        self.share = max(kind.share, 1)
        self._accepted = np.array(kind.accepted([model.type for model in models]))
        self._everywhere = not kind.models
        """Whether all models are accepted; where there is no card, no share is free."""
        self._once = 2 * self.share > WHOLE
        most = min(width * (WHOLE // self.share), MOST_COUNTED)
        counts = np.arange(most + 1)
        self._breaks = np.array(
            sorted({pod.kind.cpu * (n + 1) for pod in pods for n in range(most // pod.kind.gpus)}), np.int64
        )
        lowest = np.concatenate(([0], self._breaks))
        self._room = [_room(pod.kind, lowest[:, None], counts).astype(np.int8) for pod in pods]
        """The places for each kind, by rank of CPU and number of cards."""
        self._most = most
        self._table = np.zeros((len(lowest), most + 1))
        self.counts = False
        """Whether a place for any of the kinds is worth anything."""

    def cards(self, shares: Array, model: Array) -> Array:
        """How often the share is free on each card."""
        # A comparison takes a fraction of the time of a division.
        often: Array = shares >= self.share if self._once else shares // self.share
        return often if self._everywhere else often * self._accepted.take(model)

    def weigh(self, worth: Sequence[float]) -> None:
        """Take over what a place for each kind is worth."""
        self.counts = max(worth) > _NEGLIGIBLE
        self._table = np.zeros_like(self._table)
        for room, weight in zip(self._room, worth, strict=True):
            if weight > _NEGLIGIBLE:
                self._table += room * weight

    def worth(self, cards: Array, cpu: Array) -> Array:
        """What the places of nodes with so many cards are worth, in cards."""
        result: Array = self._table[self._breaks.searchsorted(cpu, side="right"), np.minimum(cards, self._most)]
        return result


def _room(kind: PodKind, cpu: Array, cards: Array) -> Array:
    """The places for a kind on nodes with that much CPU and so many cards."""
    by_cards = cards // kind.gpus
    result: Array = np.minimum(cpu // kind.cpu, by_cards) if kind.cpu else by_cards + 0 * cpu
    return result


def is_scarce(kind: PodKind) -> bool:
    """Whether places for a kind count: parts of any card are plenty."""
    return kind.gpus > 1 or (kind.gpus == 1 and (kind.share == WHOLE or bool(kind.models)))


def _demand(pod: TypicalPod) -> float:
    return pod.popularity * pod.kind.gpus * pod.kind.share


class Places:
    """What the places on nodes are worth."""

    def __init__(self, workload: TypicalPods, models: Sequence[CardModel], width: int) -> None:
        self._mean = sum(map(_demand, workload)) / WHOLE
        scarce = [pod for pod in workload if is_scarce(pod.kind)]
        groups: dict[tuple[int, tuple[str, ...]], list[TypicalPod]] = {}
        for pod in sorted(scarce, key=_demand, reverse=True)[:MOST_KINDS]:
            groups.setdefault((pod.kind.share, pod.kind.models), []).append(pod)
        self._groups = [PlaceGroup(pods, models, width) for pods in groups.values()]
        self._weighty: list[PlaceGroup] = []
        self.kinds: tuple[ScarceKind, ...] = ()
        """The scarce kinds as of the last weighing, in the order of `room`; a new tuple each time."""

    def weigh(self, shares: Array, model: Array, cpu: Array, cards: int) -> None:
        """Weigh the places anew, by all nodes; `cards` is the number of cards in the cluster."""
        free = float(shares.sum()) / WHOLE
        found: list[ScarceKind] = []
        for group in self._groups:
            has = np.add.reduce(group.cards(shares, model), axis=0)
            kinds = [self._scarce(pod, int(_room(pod.kind, cpu, has).sum()), free, cards) for pod in group.pods]
            group.weigh([kind.worth for kind in kinds])
            found += kinds
        self._weighty = [group for group in self._groups if group.counts]
        self.kinds = tuple(found)

    def _scarce(self, pod: TypicalPod, places: int, free: float, cards: int) -> ScarceKind:
        expected = pod.popularity * free / self._mean + RESERVE * sqrt(pod.popularity * cards / self._mean)
        size = pod.kind.gpus * pod.kind.share / WHOLE
        return ScarceKind(
            pod.kind, places, expected, size * min(1.0, expected / places) ** STEEPNESS if places else 0.0
        )

    def room(self, shares: Array, model: Array, cpu: Array) -> list[int]:
        """The places of one node for each of the scarce kinds."""
        return [
            int(_room(pod.kind, cpu, np.add.reduce(group.cards(shares, model), axis=0)).sum())
            for group in self._groups
            for pod in group.pods
        ]

    def of(self, shares: Array, model: Array, cpu: Array) -> Array:
        """What the places of each node are worth, in cards."""
        result = np.zeros(shares.shape[-1])
        for group in self._weighty:
            result += group.worth(np.add.reduce(group.cards(shares, model), axis=0), cpu)
        return result

    def of_each(self, shares: Array, after: Array, model: Array, cpu: Array) -> Array:
        """The same if one card had another free share, for each card of each node."""
        result = np.zeros(shares.shape)
        for group in self._weighty:
            cards = group.cards(shares, model)
            result += group.worth(np.add.reduce(cards, axis=0) - cards + group.cards(after, model), cpu)
        return result
