"""Settling: what is not told of pending pods at once, because it passes by itself while a job is still being made.

The pods of a job come one after another, and so do their PodGroup and their annotations. That some are still missing is
worth a warning only if it stays like that for a while.
"""

from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from tonnage.framework.decision import Decision

SECONDS = 2.0
"""How long the same must be missing before it is told."""
PASSING = frozenset(("GroupExpected", "NotEnoughPods", "NotEnoughPodsOfRole", "NotEnoughPodsOfSubGroup"))
"""Reasons that say that something of the job is missing."""
Told = tuple[Decision, str]
"""A decision about a pending pod, and why it is pending."""


class _Kept(NamedTuple):
    decision: Decision
    why: str
    due: float


class Settling:
    """Keeps what is not told yet, by pod."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def sift(self, told: Iterable[Told]) -> list[Told]:
        """What to tell now; the rest is kept, from when it was first so."""
        now: list[Told] = []
        for decision, why in told:
            key = decision.task.key
            known = self._kept.pop(key, None)
            if not decision.rejected or decision.rejected[0].reason not in PASSING:
                now.append((decision, why))
            elif known is not None and known.why == why and known.decision.task.uid == decision.task.uid:
                self._kept[key] = known
            else:
                self._kept[key] = _Kept(decision, why, self._clock() + SECONDS)
        return now

    def forget(self, key: str) -> None:
        """A pod is gone or has a place."""
        self._kept.pop(key, None)

    def due(self, pending: Container[str]) -> list[Told]:
        """What is still so after that time, of the pods about which nothing is about to be decided."""
        now = self._clock()
        due = [key for key, kept in self._kept.items() if kept.due <= now and key in pending]
        return [(kept.decision, kept.why) for kept in map(self._kept.pop, due)]
