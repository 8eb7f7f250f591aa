"""Tasks for workers in processes of their own."""

import os
import time
from pathlib import Path


class Sources:
    """What tasks share: something that knows the process it was unpacked in, and how often that was done there."""

    unpacked = 0

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __setstate__(self, state: dict[str, int]) -> None:
        Sources.unpacked += 1
        self.__dict__ |= state


def product(sources: Sources, number: int) -> int:
    return sources.factor * number


def unpacked(sources: Sources, number: int) -> tuple[int, int]:
    time.sleep(0.05)
    return os.getpid(), Sources.unpacked


def fail(sources: Sources, number: int) -> int:
    raise ValueError(f"{number} is not to be had")


def deadly(sources: Sources, number: int) -> int:
    os.kill(os.getpid(), 9)
    return number


def slow_product(sources: Sources, task: tuple[int, str]) -> int:
    """A product that takes a moment, and leaves a note that says which process began it."""
    number, folder = task
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    time.sleep(0.15)
    return sources.factor * number
