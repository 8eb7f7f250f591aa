"""One fault after another on one arena; after each the cluster comes to rest and is judged."""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tests.chaos.arena import Stage
from tests.chaos.faults import Fault, Ground
from tests.chaos.rest import Judge, Rest
from tests.chaos.traffic import Flow, Traffic

_WARMING = 0.5
"""Seconds of traffic before a fault, so that there is something in the middle of which it can happen."""


class Done(NamedTuple):
    """A fault and what came of it."""

    kind: str
    what: str
    seconds: float
    wrong: list[str]


class Place(Protocol):
    """Where faults strike."""

    @property
    def arena(self) -> Stage: ...
    @property
    def traffic(self) -> Flow: ...
    @property
    def rng(self) -> random.Random: ...


class Run:
    """A series of faults."""

    def __init__(
        self, ground: Place, rest: Judge, kinds: Mapping[str, Callable[[Any], str]], tell: Callable[[str], None]
    ) -> None:
        self.kinds = kinds
        self._tell = tell
        self.ground, self.rest, self.traffic = ground, rest, ground.traffic
        self.done: list[Done] = []

    def begin(self) -> None:
        """Fill the cluster."""
        self.traffic.fill()
        wrong = self.rest.wait()
        assert wrong == [], wrong

    def inject(self, kind: str) -> Done:
        """One fault while pods come and go, and what is wrong after it."""
        started, mixed_up = time.monotonic(), self.ground.arena.player.mixed_up
        before = len(mixed_up)
        with self.traffic.flowing():
            time.sleep(_WARMING)
            what = self.kinds[kind](self.ground)
        wrong = [*self.rest.wait(), *mixed_up[before:], *self.ground.arena.take_complaints()]
        done = Done(kind, what, time.monotonic() - started, wrong)
        self.done.append(done)
        self._tell(f"{len(self.done):4} {done.seconds:5.1f} s  {kind}: {what or 'did not come about'}")
        for one in wrong:
            self._tell(f"     WRONG: {one}")
        return done

    def series(self, faults: int, only: str = "") -> None:
        """So many faults that came about, every kind equally often, in an order drawn anew each round; or one kind."""
        waiting: list[str] = []
        while sum(1 for done in self.done if done.what) < faults:
            if not waiting:
                waiting = [only] if only else self.ground.rng.sample(list(self.kinds), len(self.kinds))
            self.inject(waiting.pop())

    @property
    def wrong(self) -> Sequence[str]:
        return [f"{done.kind}: {one}" for done in self.done for one in done.wrong]


def extender_run(arena: Stage, kinds: Mapping[str, Fault[Any]], seed: int, tell: Callable[[str], None]) -> Run:
    """On extenders, with pods that share cards."""
    rng = random.Random(seed)
    traffic = Traffic(arena, rng)
    return Run(Ground(arena, traffic, rng), Rest(arena, traffic), kinds, tell)


def summary(runs: Sequence[Run]) -> str:
    """What several runs came to, kind by kind."""
    done = [one for run in runs for one in run.done]
    counts = Counter(one.kind for one in done if one.what)
    found = Counter(one.kind for one in done if one.wrong)
    seconds: defaultdict[str, float] = defaultdict(float)
    for one in done:
        seconds[one.kind] = max(seconds[one.kind], one.seconds)
    kinds = [kind for run in runs for kind in run.kinds]
    players = [run.ground.arena.player for run in runs]
    measured = [one for run in runs for one in run.ground.arena.measured]
    floods = []
    if measured:
        slowest, most = (max(figures) for figures in zip(*measured, strict=True))
        floods = [f"{len(measured)} floods: slowest /healthz {slowest:.2f} s, most memory {most:.0f} MB"]
    lines = [f"{counts[kind]:5} {found[kind]:5} {seconds[kind]:9.1f}  {kind}" for kind in kinds if kind in seconds]
    return "\n".join(
        [
            "times wrong slowest s  kind of fault",
            *lines,
            f"{sum(counts.values()):5} {sum(found.values()):5} {max(seconds.values(), default=0.0):9.1f}  "
            f"faults of {len(counts)} kinds",
            f"{sum(run.traffic.created for run in runs)} pods created, "
            f"{sum(len(player.started) for player in players)} placed and run, "
            f"{sum(run.ground.arena.evicted for run in runs)} evicted, "
            f"{sum(run.traffic.deleted for run in runs)} deleted",
            f"slowest rest {max((second for run in runs for second in run.rest.seconds), default=0.0):.1f} s; "
            f"{sum(len(player.mixed_up) for player in players)} pods taken for another by a plugin",
            *floods,
        ]
    )
