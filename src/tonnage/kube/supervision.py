"""Supervision of background work: nothing fails unseen, and what must run for ever is begun again.

A loop that fails runs again after a pause of 0.1 to 10 seconds, twice as long each time. One that fails 10 times in a
row over at least a minute ends the process, whose last lines say why: another process may do better, and nobody is
served by one that looks alive. Every failure is logged with the name of its task and counted.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from tonnage.model.duration import format_seconds

log = logging.getLogger(__name__)

MOST_FAILURES, LEAST_SECONDS = 10, 60.0
"""A loop ends the process after so many failures in a row, the first of them so many seconds ago."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_CALLBACK = "callback"
TASKS = (
    "bind",
    "bind outcome",
    _CALLBACK,
    "certificates",
    "conditions",
    "cycle",
    "cycle outcome",
    "events",
    "eviction",
    "handshakes",
    "health",
    "housekeeping",
    "informer",
    "overlaps",
    "own certificates",
    "podgroup status",
    "problems",
    "queue status",
    "recorder",
    "reload",
    "requeue",
    "role change",
    "stale gangs",
)
"""The background tasks of both servers."""

failures: Counter[str] = Counter(dict.fromkeys(TASKS, 0))
"""Failures of background tasks in this process, by task."""


class GaveUpError(Exception):
    """Something that must run for ever fails again and again; the process ends."""


class Patience:
    """Counts the failures in a row of something that is tried again and again."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._in_a_row = 0
        self._first = 0.0

    def succeeded(self) -> None:
        """There is progress."""
        self._in_a_row = 0

    def failed(self, error: BaseException) -> float:
        """Count a failure; for how many seconds to wait now. GaveUpError if there were too many."""
        now = self._clock()
        self._first = self._first if self._in_a_row else now
        self._in_a_row += 1
        if self._in_a_row >= MOST_FAILURES and now - self._first >= LEAST_SECONDS:
            often = f"{self._in_a_row} times in a row in {format_seconds(now - self._first)}"
            raise GaveUpError(
                f"{self._name} failed {often}, the last time with {type(error).__name__}: {error}"
            ) from error
        pause: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._in_a_row - 1, 30))
        return pause


def failed(name: str, error: BaseException) -> None:
    """Log and count the failure of a background task."""
    failures[name] += 1
    log.error("%s failed: %s: %s", name, type(error).__name__, error, exc_info=error)


def first_cause(error: BaseException) -> BaseException:
    """The first error in a group of them, which may be in groups itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def keep_running(
    name: str, loop: Callable[[], Coroutine[Any, Any, None]], clock: Callable[[], float] = time.monotonic
) -> None:
    """Run a loop, and again whenever it fails; GaveUpError if it fails too often without having run for a minute."""
    patience = Patience(name, clock)
    while True:
        begun = clock()
        try:
            await loop()
            return
        except Exception as error:
            cause = first_cause(error)
            if isinstance(cause, GaveUpError):
                raise cause from error
            failed(name, error)
            if clock() - begun >= LEAST_SECONDS:
                patience.succeeded()
            pause = patience.failed(cause)
        await asyncio.sleep(pause)


def background(name: str, work: Coroutine[Any, Any, object], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    """Start a task that is in `tasks` until it ends; if it fails, that is logged and counted."""
    task = asyncio.get_running_loop().create_task(_watched(name, work), name=name)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def _watched(name: str, work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except Exception as error:
        failed(name, error)


def watch_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    """Log and count the failures of timers, callbacks and tasks that nobody waits for."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failures[_CALLBACK] += 1
        loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
