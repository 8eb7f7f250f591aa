"""The usual pods of a cluster: kinds of pods and how popular each is.

A kind is what matters for fragments: processors, the number of cards, the share of each, and which models will do. The
most popular kinds count until they make up 95 % of all pods, pods without cards included.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tonnage.plugins.helpers.cardshares import WHOLE

COVERED = 0.95
"""The part of all pods that the kinds make up together which count as usual."""


class PodKind(NamedTuple):
    """Pods that are alike; kinds of equal popularity come in this order of fields."""

    cpu: int
    """In thousandths."""
    share: int
    """Of each card, in millionths."""
    gpus: int
    models: tuple[str, ...] = ()
    """Names of cards that will do, or parts of such names; all will if there are none."""

    def accepted(self, types: Sequence[str]) -> list[bool]:
        """Which types of cards will do; a model that is the whole name of one of them means no other."""
        names = set(types)
        words = [(model, model.upper()) for model in self.models]
        return [
            not words or any(model == type_ or (model not in names and word in type_.upper()) for model, word in words)
            for type_ in types
        ]


class TypicalPod(msgspec.Struct, gc=False, frozen=True):
    """A kind of pods and its part of all usual pods."""

    kind: PodKind
    popularity: float


Workload = tuple[TypicalPod, ...]


def typical(counts: Mapping[PodKind, float]) -> Workload:
    """The most popular kinds, with their parts of what they make up together."""
    wanted, covered = COVERED * sum(counts.values()), 0.0
    chosen: list[tuple[PodKind, float]] = []
    for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted:
            break
        chosen.append((kind, count))
        covered += count
    return tuple([TypicalPod(kind, count / covered) for kind, count in chosen])


def kind_of(cpu: int, gpus: int, share: float, models: tuple[str, ...] = ()) -> PodKind:
    """A kind from plain numbers: thousandths of processors, cards, the part of each."""
    return PodKind(cpu, round(share * WHOLE) if gpus else 0, gpus, models if gpus else ())
