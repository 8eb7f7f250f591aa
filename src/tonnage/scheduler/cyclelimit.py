"""CycleLimit: which of very many pending pods a cycle decides about, so that cycles stay short.

Half of them are the first of each queue in scheduling order, half the latest that this round has not tried; a round
ends when every pod was tried. So free room goes to the first pods, new pods do not wait long, and no pod is left out
however often the cluster changes. The turns of queues are those of all pods: a cycle ends with the turn of a queue
whose pods in it all have places.
"""

from collections.abc import Callable, Container, Mapping
from heapq import nsmallest
from itertools import islice
from operator import attrgetter

from tonnage.cluster.task import Task

AIM = 0.3
"""The seconds that a cycle should take if it cannot decide about all pods."""
FIRST = 64
"""Pods of the very first cycle, so that the API server binds them while the others are decided about."""
FEWEST, AT_FIRST, MOST = 100, 1000, 5000
"""Limits of pods per cycle, which adapts to how long the last one took. A job counts as a whole, whatever its size."""
MOST_PARTS = 8
"""A queue gets this part of the first pods at least: with more queues there are more pods in a cycle."""
MOST_CYCLES = 100
"""A round takes at most so many cycles, because each costs something for every pending pod."""


class CycleLimit:
    """Spreads the pending pods over several cycles."""

    def __init__(
        self,
        unschedulable: Container[str],
        at_first: int = AT_FIRST,
        queue_of: Callable[[Task], str] = lambda task: "",
        first: int | None = None,
    ) -> None:
        self._unschedulable = unschedulable
        self._queue_of = queue_of
        self._most = at_first
        self._first = first
        """How many pods the first cycle decides about; None after it, or if it is as any other."""
        self._tried: set[str] = set()
        """Pods that this round has tried."""
        self.is_first = False
        """Whether the last cycle was the first one."""
        self.is_partial = False
        """Whether the last cycle left pods for another one."""
        self.cut_queues: Container[str] = frozenset()
        """The queues of such pods."""

    def next(self, waiting: Mapping[str, Task]) -> Container[str]:
        """The pods that the next cycle skips."""
        left = [task for key, task in waiting.items() if key not in self._unschedulable]
        first, self._first = self._first, None
        self.is_first = first is not None
        limit = self._most if first is None else min(first, self._most)
        self.is_partial = len(left) > limit
        self.cut_queues = frozenset()
        if not self.is_partial:
            self._tried.clear()
            return self._unschedulable
        most = limit if self.is_first else max(limit, len(waiting) // MOST_CYCLES)
        # The first cycle takes the first pods only: the next one is near, and decides about the others in their order.
        half = most if self.is_first else most // 2
        queues: dict[str, list[Task]] = {}
        for task in left:
            queues.setdefault(self._queue_of(task), []).append(task)
        each = max(half // min(len(queues), MOST_PARTS), 1)
        firsts = [nsmallest(each, tasks, key=attrgetter("order")) for tasks in queues.values()]
        chosen = {task.key for tasks in firsts for task in tasks}
        self.cut_queues = {name for name, tasks in queues.items() if len(tasks) > each}
        others = (task.key for task in reversed(left) if task.key not in chosen)
        latest = list(islice((key for key in others if key not in self._tried), most - half))
        if len(latest) < most - half:
            self._tried.clear()
        chosen.update(latest)
        self._tried |= chosen
        return _AllBut(chosen)

    def adapt(self, seconds: float) -> None:
        """Change the limit by up to a factor of 2 in view of how long the last cycle took."""
        if self.is_partial and not self.is_first:
            factor = min(2.0, max(0.5, AIM / max(seconds, 0.001)))
            self._most = int(min(MOST, max(FEWEST, self._most * factor)))


class _AllBut:
    """All names but some."""

    __slots__ = ("_names",)

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names
