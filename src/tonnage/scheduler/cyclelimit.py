"""Which of very many waiting pods a cycle looks at, so that no cycle keeps everything else waiting for long.

Half of them are the first in order, half the latest that were not looked at in this round; a round ends when everybody
was. So what comes free goes to the first, who has just come is not kept waiting, and nobody is left out however often
the cluster changes.
"""

from collections.abc import Container, Mapping
from heapq import nsmallest
from itertools import islice
from operator import attrgetter

from tonnage.cluster.task import Task
from tonnage.scheduler.unschedulable import UnschedulablePods

AIM = 0.3
"""Seconds that a cycle is to take where not everybody can be looked at."""
FEWEST, AT_FIRST, MOST = 100, 1000, 5000
"""Pods that a cycle looks at then, by how long the last one took. A job is looked at as a whole, whatever its size."""
MOST_CYCLES = 100
"""Portions are not made smaller than for so many cycles: each of these costs something for all that wait."""


class CycleLimit:
    """Cuts what waits into cycles."""

    def __init__(self, unschedulable: UnschedulablePods, at_first: int = AT_FIRST) -> None:
        self._unschedulable = unschedulable
        self._most = at_first
        self._looked_at: set[str] = set()
        """Pods that this round has looked at."""
        self.is_partial = False
        """Whether the last portion left pods for another cycle."""

    def next(self, waiting: Mapping[str, Task]) -> Container[str]:
        """The pods that are passed over in the next cycle."""
        left = [task for key, task in waiting.items() if key not in self._unschedulable]
        self.is_partial = len(left) > self._most
        if not self.is_partial:
            self._looked_at.clear()
            return self._unschedulable
        most = max(self._most, len(waiting) // MOST_CYCLES)
        half = most // 2
        chosen = {task.key for task in nsmallest(half, left, key=attrgetter("order"))}
        others = (task.key for task in reversed(left) if task.key not in chosen)
        latest = list(islice((key for key in others if key not in self._looked_at), most - half))
        if len(latest) < most - half:
            self._looked_at.clear()
        chosen.update(latest)
        self._looked_at |= chosen
        return _AllBut(chosen)

    def took(self, seconds: float) -> None:
        """How long the cycle with the last portion took; the next ones are larger or smaller, by half or double."""
        if self.is_partial:
            factor = min(2.0, max(0.5, AIM / max(seconds, 0.001)))
            self._most = int(min(MOST, max(FEWEST, self._most * factor)))


class _AllBut:
    """Everything but some names."""

    __slots__ = ("_names",)

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names
