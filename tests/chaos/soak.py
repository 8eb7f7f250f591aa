"""`python -m tests.chaos.soak`: arrivals and departures on real parts, for as long as asked.

Tells placements, latencies and memory over time; the exit status is 1 if the checker finds anything or memory grows.
"""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.chaos.arena import Arena, arena
from tests.chaos.rest import Rest
from tests.chaos.traffic import Traffic
from tests.e2e.checker import findings

PAUSE = 0.02
SPARE = 3.0
"""Megabytes that memory may wander by without counting as growth."""


class Sample(NamedTuple):
    """One stretch of time."""

    seconds: float
    placed: int
    filter_p50: float
    filter_p99: float
    bind_p50: float
    bind_p99: float
    memory: float
    """The extender's resident memory at its end, in megabytes."""

    def shown(self) -> str:
        times = (self.filter_p50, self.filter_p99, self.bind_p50, self.bind_p99)
        figures = " ".join(f"{1e3 * figure:9.1f}" for figure in times)
        return f"{self.seconds:8.0f} {self.placed:8} {figures} {self.memory:9.1f}"


HEADER = "       s   placed  filter50  filter99    bind50    bind99    memory    (ms, MB)"


class Soak:
    """Runs and remembers."""

    def __init__(self, made: Arena, seed: int) -> None:
        self._arena = made
        self.traffic = Traffic(made, random.Random(seed), fill=0.9)
        self.rest = Rest(made, self.traffic)
        self.samples: list[Sample] = []
        self.wrong: list[str] = []

    def run(self, seconds: float, stretches: int) -> None:
        """The time asked for, in stretches; the checker looks after each, and once more at rest."""
        self.traffic.fill()
        self.wrong += self.rest.wait()
        started = time.monotonic()
        print(HEADER, flush=True)
        with self.traffic.flowing(PAUSE):
            for number in range(1, stretches + 1):
                placed, passed = len(self._arena.player.started), len(self._arena.side.passed)
                time.sleep(max(0.0, started + number * seconds / stretches - time.monotonic()))
                self._sample(time.monotonic() - started, placed, passed)
        self.wrong += self.rest.wait()

    def _sample(self, seconds: float, placed: int, passed: int) -> None:
        new = self._arena.side.passed[passed:]
        filters = [one.seconds for one in new if one.path == "/filter"]
        binds = [one.seconds for one in new if one.path == "/bind"]
        sample = Sample(
            seconds,
            len(self._arena.player.started) - placed,
            *(*_percentiles(filters), *_percentiles(binds)),
            _resident(self._arena.extender.process.pid),
        )
        self.samples.append(sample)
        # While pods come and go a list of pods and one of nodes are of different moments; cards do not change here.
        self.wrong += findings(self._arena.api)
        print(sample.shown(), flush=True)

    @property
    def growth(self) -> float:
        """Megabytes by which the second half of what follows the first third is larger than its first half."""
        memory = [sample.memory for sample in self.samples[len(self.samples) // 3 :]]
        half = len(memory) // 2
        return statistics.mean(memory[half:]) - statistics.mean(memory[:half])


def _percentiles(times: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    if len(times) < 2:
        return (0.0, 0.0)
    cuts = statistics.quantiles(times, n=100)
    return cuts[49], cuts[98]


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="which pods (default 1)")
    parser.add_argument("--nodes", type=int, default=20, help="nodes of four cards each (default 20)")
    arguments = parser.parse_args()
    with arena(arguments.nodes) as made:
        soak = Soak(made, arguments.seed)
        soak.run(60 * arguments.minutes, max(6, round(2 * arguments.minutes)))
        wrong = [*soak.wrong, *made.player.mixed_up]
        print(
            f"{soak.traffic.created} pods created, {len(made.player.started)} placed and run, "
            f"{soak.traffic.deleted} deleted; memory after warm-up {soak.growth:+.1f} MB; {len(wrong)} findings"
        )
        if soak.growth > SPARE:
            wrong.append(f"memory grew by {soak.growth:.1f} MB after warm-up")
        for one in wrong:
            print(f"WRONG: {one}")
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
