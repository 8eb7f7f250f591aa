"""One fault after another on one arena; after each the cluster comes to rest and is judged."""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.chaos.arena import Arena
from tests.chaos.faults import KINDS, Ground
from tests.chaos.rest import Rest
from tests.chaos.traffic import Traffic

_WARMING = 0.7
"""Seconds of traffic before a fault, so that there is something in the middle of which it can happen."""


class Done(NamedTuple):
    """A fault and what came of it."""

    kind: str
    what: str
    seconds: float
    wrong: list[str]


class Run:
    """A series of faults."""

    def __init__(self, arena: Arena, seed: int, tell: Callable[[str], None]) -> None:
        self._tell = tell
        rng = random.Random(seed)
        self.traffic = Traffic(arena, rng)
        self.rest = Rest(arena, self.traffic)
        self.ground = Ground(arena, self.traffic, rng)
        self.done: list[Done] = []

    def begin(self) -> None:
        """Fill the cluster."""
        self.traffic.fill()
        wrong = self.rest.wait()
        assert wrong == [], wrong

    def inject(self, kind: str) -> Done:
        """One fault while pods come and go, and what is wrong after it."""
        started = time.monotonic()
        with self.traffic.flowing():
            time.sleep(_WARMING)
            what = KINDS[kind](self.ground)
        wrong = self.rest.wait()
        done = Done(kind, what, time.monotonic() - started, wrong)
        self.done.append(done)
        self._tell(f"{len(self.done):4} {done.seconds:5.1f} s  {kind}: {what or 'did not come about'}")
        for one in wrong:
            self._tell(f"     WRONG: {one}")
        return done

    def series(self, faults: int) -> None:
        """So many faults that came about, every kind equally often, in an order drawn anew each round."""
        waiting: list[str] = []
        while sum(1 for done in self.done if done.what) < faults:
            if not waiting:
                waiting = self.ground.rng.sample(list(KINDS), len(KINDS))
            self.inject(waiting.pop())

    @property
    def wrong(self) -> Sequence[str]:
        return [f"{done.kind}: {one}" for done in self.done for one in done.wrong]

    def summary(self) -> str:
        counts = Counter(done.kind for done in self.done if done.what)
        found = Counter(done.kind for done in self.done if done.wrong)
        lines = [f"{counts[kind]:5} {found[kind]:5}  {kind}" for kind in KINDS if counts[kind] or found[kind]]
        arena, slowest = self.ground.arena, max(self.rest.seconds, default=0.0)
        return "\n".join(
            [
                "times wrong  kind of fault",
                *lines,
                f"{sum(counts.values()):5} {sum(found.values()):5}  faults of {len(counts)} kinds",
                f"{self.traffic.created} pods created, {len(arena.player.started)} placed and run, "
                f"{self.traffic.deleted} deleted",
                f"slowest rest {slowest:.1f} s; {len(arena.player.mixed_up)} pods taken for another by a plugin",
            ]
        )
