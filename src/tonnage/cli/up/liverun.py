"""A live run: drives a replay by the wall clock, at a speed that may change, until its end or a signal."""

import math
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tonnage.simulator.replay import Replay

FRAMES_PER_SECOND = 8
_NAP = 0.05
_MOST_BEHIND = 0.5
_SLOWEST, _FASTEST = 1.0, 1e6


class LiveRun:
    """Drives a replay by the wall clock, until its end or a signal."""

    replay: "Replay"

    def __init__(
        self, speed: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.speed = speed
        self.clock = clock
        self.stopped = False
        self.begun = clock()
        self.busy = 0.0
        """Seconds of work, without waiting for time to pass."""
        self.sleep = sleep
        """Lets wall time pass, up to so many seconds."""
        self.is_paused = False
        self._is_woken = False
        self._anchor: tuple[float, float] | None = None
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=2 * FRAMES_PER_SECOND)

    def stop(self) -> None:
        """End the run; what it has done so far is summed up."""
        self.stopped = True

    def until(self, limit: float, deadline: float = math.inf) -> bool:
        """Let virtual time move on to a limit, but not beyond a wall time; whether it got there."""
        self._is_woken = False
        while not self.stopped:
            if not self.is_paused:
                self._work(min(limit, self._due()), deadline)
            rest = deadline - self.clock()
            if self.replay.now >= limit:
                return True
            if rest <= 0 or self._is_woken:
                return False
            if self.is_paused:
                self.sleep(min(rest, _NAP))
            elif self.speed and not self.stopped:
                self.sleep(min(rest, _NAP, (limit - self.replay.now) / self.speed))
        return False

    def wake(self) -> None:
        """Let `until` return before its deadline."""
        self._is_woken = True

    def pause(self) -> None:
        """Stop virtual time, or let it go on."""
        self.is_paused = not self.is_paused
        self._anchor = None

    def faster(self) -> None:
        """Twice as fast, up to a bound; full speed stays."""
        if self.speed:
            self._set_speed(min(self.speed * 2, _FASTEST))

    def slower(self) -> None:
        """Half as fast; from full speed, half of what it came to."""
        self._set_speed(max((self.speed or self.pace()[1]) / 2, _SLOWEST))

    def _set_speed(self, speed: float) -> None:
        self.speed = speed
        self._anchor = None
        self._recent.clear()

    @property
    def each(self) -> float:
        """Microseconds of work per decision."""
        return self.busy / self.replay.decisions * 1e6 if self.replay.decisions else 0.0

    def pace(self) -> tuple[float, float]:
        """Decisions and virtual seconds per second over the last moments; to be asked once per frame."""
        now = self.clock(), self.replay.decisions, self.replay.now
        self._recent.append(now)
        then = self._recent[0]
        seconds = now[0] - then[0]
        return ((now[1] - then[1]) / seconds, (now[2] - then[2]) / seconds) if seconds > 0 else (0.0, self.speed)

    def _due(self) -> float:
        """The virtual time that it should be now."""
        if not self.speed:
            return math.inf
        wall, virtual = self.clock(), self.replay.now
        if self._anchor is None:
            self._anchor = wall, virtual
        due = self._anchor[1] + (wall - self._anchor[0]) * self.speed
        if due - virtual > _MOST_BEHIND * self.speed:
            # Too slow a machine, or one that slept: go on from here instead of chasing what was missed.
            due = virtual + _MOST_BEHIND * self.speed
            self._anchor = wall, due
        return due

    def _work(self, until: float, deadline: float) -> None:
        """Small steps, so that a signal or a frame that is due need not wait for long."""
        begin = self.clock()
        now = begin
        while self.replay.next_time <= until and not self.stopped and now < deadline:
            self.replay.step()
            now = self.clock()
        if self.replay.next_time > until and not self.stopped:
            self.replay.advance(until)
        self.busy += now - begin
