"""History: figures of a cluster over the last day, in bounded memory; Prometheus keeps what is older."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

STEP = 10.0
"""Seconds between samples."""
DAY = 86_400.0
MOST_SAMPLES = int(DAY / STEP)
MOST_QUEUES = 64
"""Queues that are followed, the first that come."""

MEASURES = ("allocated", "fragmentation", "usable", "waiting", "binds")
"""Percent of card memory, percent of all cards, cards, pods, pods per second."""


class Series:
    """Values of one figure, one for each time of its history; NaN where it was not known."""

    def __init__(self, length: int = 0) -> None:
        self.values = array("f", [float("nan")]) * length

    def append(self, value: float) -> None:
        self.values.append(value)


class History:
    """Samples of the cluster's figures and of the cards that queues hold, the oldest first."""

    def __init__(self) -> None:
        self.times = array("d")
        self.series = {name: Series() for name in MEASURES}
        self.queues: dict[str, Series] = {}

    def is_due(self, now: float) -> bool:
        """Whether it is time for the next sample; a clock that went back begins anew."""
        return not self.times or now >= self.times[-1] + STEP or now < self.times[-1]

    def add(self, now: float, measures: dict[str, float], queues: dict[str, float]) -> None:
        """Take a sample."""
        if self.times and now < self.times[-1]:
            del self.times[:]
            self.series = {name: Series() for name in MEASURES}
            self.queues = {}
        self.times.append(now)
        for name, series in self.series.items():
            series.append(measures[name])
        for name in queues:
            if name not in self.queues and len(self.queues) < MOST_QUEUES:
                self.queues[name] = Series(len(self.times) - 1)
        for name, series in self.queues.items():
            series.append(queues.get(name, 0.0))
        old = max(len(self.times) - MOST_SAMPLES, bisect_left(self.times, now - DAY))
        if old > MOST_SAMPLES // 100 or len(self.times) > MOST_SAMPLES:
            # Some at a time, because the rest has to be moved.
            del self.times[:old]
            for series in self._all():
                del series.values[:old]

    def _all(self) -> Iterator[Series]:
        yield from self.series.values()
        yield from self.queues.values()

    def points(self, series: Series, seconds: float, most: int) -> list[tuple[float, float]]:
        """The last values as means over equal spans, at most so many, without unknown ones."""
        if not self.times:
            return []
        first = bisect_left(self.times, self.times[-1] - seconds)
        count = len(self.times) - first
        width = max(1, -(-count // most))
        # Spans begin at fixed samples, so that a mean that was shown stays as it was.
        starts = range(first - first % width, len(self.times), width)
        found = []
        for start in starts:
            begin, end = max(start, first), min(start + width, len(self.times))
            known = [value for value in series.values[begin:end] if value == value]
            if known:
                found.append((self.times[end - 1], sum(known) / len(known)))
        return found
