"""Pods that a scheduler places on the node: honest ones within what is free, and forged ones."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.chaos.agent.arena import NodeArena
from tests.chaos.arena import FAILURES
from tests.chaos.traffic import Flow
from tests.e2e.kubelet.realnode import Card, container
from tonnage.lab.api import pods_path

CARDS, MEMORY, SLOTS, CORES = 8, 40960, 10, 100
MOST = 14
"""Pods that are there at once; each is a process or two of this machine."""
FORGED = 0.12
"""The share of pods whose record claims more than there is."""


class PlacedPod(NamedTuple):
    """What a scheduler has written."""

    containers: dict[str, list[Card]]
    is_forged: bool

    def cards(self) -> list[Card]:
        return [card for cards in self.containers.values() for card in cards]


class NodeTraffic(Flow):
    """Arrivals and departures on one node."""

    def __init__(self, arena: NodeArena, rng: random.Random) -> None:
        super().__init__()
        self._arena, self._rng = arena, rng
        self.placed: dict[str, PlacedPod] = {}
        """All pods that were ever placed and may be there."""

    def fill(self) -> None:
        while len(self.placed) < MOST // 2:
            self._arrive()

    def step(self) -> None:
        try:
            there = {one["metadata"]["name"]: one for one in self._arena.node.pods().values()}
            for name in self.placed.keys() - there.keys():
                del self.placed[name]
            leaving = [name for name, one in there.items() if "deletionTimestamp" not in one["metadata"]]
            over = [name for name in leaving if there[name]["status"]["phase"] == "Failed"]
            if len(there) >= MOST or (leaving and self._rng.random() < 0.4):
                self.remove(self._rng.choice(over or leaving) if leaving else "")
            else:
                self._arrive()
        except FAILURES:
            # The API server is away; the next step tries again.
            return

    def remove(self, name: str) -> None:
        if name:
            self._arena.node.api.delete(f"{pods_path()}/{name}", grace=1)
            self.deleted += 1

    def _arrive(self) -> None:
        number, rng = self.created, self._rng
        self.created += 1
        shape = {"main": rng.randint(1, 2), "beside": rng.randint(0, 1), "prepare": rng.randint(0, 1)}
        amounts = (200 + 3 * number, 1 + number % 3)
        uses: dict[str, list[Card]] = {}
        for place, (name, count) in enumerate(shape.items()):
            cards = rng.sample(range(CARDS), count)
            uses[name] = [(card, amounts[0] + place, amounts[1]) for card in sorted(cards)]
        is_forged = rng.random() < FORGED
        if is_forged:
            uses["main"][0] = (uses["main"][0][0], MEMORY + number, 1)
        made = PlacedPod(uses, is_forged)
        if is_forged or not over_committed([*(one for one in self.placed.values() if not one.is_forged), made]):
            self._bind(f"p{number}", made)

    def _bind(self, name: str, made: PlacedPod) -> None:
        self.placed[name] = made
        first = [container("prepare", made.containers["prepare"], "-seconds", "0")]
        rest: list[dict[str, Any]] = [container(one, made.containers[one]) for one in ("main", "beside")]
        self._arena.node.bind(name, *rest, init=first)

    @contextmanager
    def flowing(self, pause: float = 0.15) -> Iterator[None]:
        with super().flowing(pause):
            yield


def over_committed(pods: list[PlacedPod]) -> list[int]:
    """Cards on which these pods together have more than there is."""
    over = []
    for index in range(CARDS):
        uses = [(mib, cores) for pod in pods for card, mib, cores in pod.cards() if card == index]
        if len(uses) > SLOTS or sum(mib for mib, _ in uses) > MEMORY or sum(cores for _, cores in uses) > CORES:
            over.append(index)
    return over
