"""Outages: failures of requests that concern all kinds of objects alike, told in one line with their count.

An API server that is away fails the list or watch of every kind, again and again.
"""

import asyncio
import logging

from tonnage.kube.errors import ConnectionLostError, KubeError, StatusError, UnsentError

log = logging.getLogger(__name__)

AT_FIRST, BETWEEN = 0.5, 10.0
"""Seconds for which failures are gathered before the first line, and the least between two lines."""
_UNAUTHORIZED, _TOO_MANY, _SERVER = 401, 429, 500


class Outages:
    """Gathers the failures of many watches."""

    def __init__(self) -> None:
        self._failures = 0
        self._kinds: set[str] = set()
        self._last = ""
        self._told = -BETWEEN
        self._timer: asyncio.TimerHandle | None = None

    def add(self, kind: str, problem: KubeError) -> None:
        """Tell of a failure: at once if it concerns this kind alone, else with others soon."""
        if not _concerns_all(problem):
            log.warning("%s: %s", kind, problem)
            return
        self._failures += 1
        self._kinds.add(kind)
        self._last = f"{kind}: {problem}"
        if self._timer is None:
            loop = asyncio.get_running_loop()
            pause = max(AT_FIRST, self._told + BETWEEN - loop.time())
            self._timer = loop.call_later(pause, self._tell)

    def _tell(self) -> None:
        if self._failures == 1:
            log.warning("%s", self._last)
        else:
            log.warning(
                "%d requests for %d kinds failed and are repeated; the last: %s",
                self._failures,
                len(self._kinds),
                self._last,
            )
        self._failures, self._timer = 0, None
        self._kinds.clear()
        self._told = asyncio.get_running_loop().time()


def _concerns_all(problem: KubeError) -> bool:
    if isinstance(problem, StatusError):
        return problem.status in (_UNAUTHORIZED, _TOO_MANY) or problem.status >= _SERVER
    return isinstance(problem, ConnectionLostError | UnsentError)
