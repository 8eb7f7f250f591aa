"""Sizes of the agent's benchmark, and waiting for what it measures."""

import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

from bench.report import BenchmarkError

PATIENCE = 240.0
CARDS, SPLIT = 8, 10


class Sizes(NamedTuple):
    """How much is measured."""

    starts: int
    at_once: int
    """Pods that are bound at once."""
    rounds: int
    day: int
    """Pods that come and go before memory is looked at."""
    idle: float
    """Seconds."""


FULL = Sizes(starts=5, at_once=40, rounds=3, day=10_000, idle=90.0)
QUICK = Sizes(starts=1, at_once=3, rounds=1, day=8, idle=1.0)


def waited(is_so: Callable[[], object], what: str) -> float:
    """The seconds until something is so."""
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() > begun + PATIENCE:
            raise BenchmarkError(f"{what} after {PATIENCE:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - begun


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)
