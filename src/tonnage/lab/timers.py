"""Timers: calls that are due later, however many, on one thread."""

import heapq
import threading
import time
from collections.abc import Callable


class Timers:
    """Calls functions after some seconds, one after another, until it is stopped."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = 0
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function, which raises nothing, after so many seconds."""
        with self._changed:
            self._numbers += 1
            heapq.heappush(self._due, (time.monotonic() + seconds, self._numbers, call))
            self._changed.notify()

    def stop(self) -> None:
        """Call nothing any more; a call that is under way goes on."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            call()

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next call that is due; nothing once everything is stopped."""
        with self._changed:
            while not self._is_stopped:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
            return None
