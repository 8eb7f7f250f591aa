"""Arrivals and departures: pods that share cards come and go, so that the cluster stays about full."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from tests.chaos.arena import CARD_MEMORY, FAILURES, Stage
from tests.e2e.extending import SCHEDULER
from tests.scenario import pod
from tonnage.lab.api import ApiError
from tonnage.model.pod import Pod

MEMORIES = (1000, 2000, 3000, 4000, 6000)
CORES = (5, 10, 20, 30)
PAUSE = 0.04


def sharing(name: str, cards: int, memory: int, cores: int, scheduler: str = SCHEDULER) -> Pod:
    made = pod(name, cards, memory=memory, cores=cores)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulerName=scheduler))


class Flow:
    """What comes and goes while faults strike."""

    def __init__(self) -> None:
        self.created = 0
        self.deleted = 0

    def step(self) -> None:
        """Something comes or goes."""
        raise NotImplementedError

    def fill(self) -> None:
        """Enough comes that the cluster is about full."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Delete a pod."""
        raise NotImplementedError

    @contextmanager
    def flowing(self, pause: float = PAUSE) -> Iterator[None]:
        """Goes on inside."""
        stopped = threading.Event()

        def flow() -> None:
            while not stopped.wait(pause):
                self.step()

        thread = threading.Thread(target=flow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(60)


class Traffic(Flow):
    """Knows which pods should be there."""

    def __init__(self, arena: Stage, rng: random.Random, fill: float = 1.0) -> None:
        super().__init__()
        self._arena = arena
        self._rng = rng
        self._most = fill * arena.nodes * arena.cards * CARD_MEMORY
        self._memory: dict[str, int] = {}
        """What each pod asks for, of those that should be there."""
        self._doubtful: set[str] = set()
        """Pods of which it is not known whether a call about them had an effect."""
        self._number = 0

    def arrive(self, name: str = "") -> None:
        """One pod more, under a new name unless it is given."""
        self._number += 1
        name = name or f"p{self._number:06}"
        cards = 2 if self._rng.random() < 0.15 else 1
        memory = self._rng.choice(MEMORIES)
        self._memory[name] = cards * memory
        try:
            self._arena.api.create_pods([sharing(name, cards, memory, self._rng.choice(CORES))])
            self.created += 1
        except FAILURES:
            self._doubtful.add(name)

    def leave(self) -> None:
        """One pod less."""
        if self._memory:
            self.remove(self._rng.choice(list(self._memory)))

    def remove(self, name: str) -> None:
        self._memory.pop(name, None)
        self._doubtful.discard(name)
        try:
            self._arena.delete_pod(name)
            self.deleted += 1
        except FAILURES:
            self._doubtful.add(name)

    def step(self) -> None:
        """Arrivals until the cluster is full, then as many departures as arrivals."""
        full = sum(self._memory.values()) / self._most
        if self._rng.random() < (0.9 if full < 0.9 else 0.5 if full < 1.0 else 0.2):
            self.arrive()
        else:
            self.leave()

    def fill(self) -> None:
        while sum(self._memory.values()) < 0.9 * self._most:
            self.arrive()

    def settle(self) -> list[str]:
        """Compare with what is there; pods that are missing or should not be."""
        there = set(self._arena.pods())
        wrong = [f"{name} is lost" for name in self._memory if name not in there and name not in self._doubtful]
        for name in list(self._memory):
            if name not in there:
                del self._memory[name]
        for name in there & self._doubtful - set(self._memory):
            with suppress(ApiError):
                self._arena.delete_pod(name)
        self._doubtful.clear()
        return wrong
