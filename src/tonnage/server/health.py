"""Health: whether a process lives and whether it is ready, as its probes are told."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tonnage.kube.watch import SILENCE, Reflector
from tonnage.model.duration import format_seconds

STALE_SECONDS = 60.0
"""How long a broken watch may be out of date before the process is not ready."""
SILENT_SECONDS = SILENCE + 30.0
"""How long a watch may be silent that is not known to be broken; servers send a bookmark each minute."""
LATE_SECONDS = 30.0
"""How late the event loop may be with a timer of one second before the process is not alive."""
_BEAT_SECONDS = 1.0
_UNAVAILABLE = 503

Check = Callable[[], str]
"""Why something is wrong; empty if nothing is."""


class Health:
    """Answers `/livez`, `/readyz` and, as HAMi has it, `/healthz`."""

    def __init__(
        self,
        ready: asyncio.Event,
        reflectors: Mapping[str, Reflector],
        alive: Sequence[Check] = (),
        notes: Callable[[], dict[str, str]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ready = ready
        self._reflectors = reflectors
        self._alive = alive
        self._notes = notes
        """What is shown beside `ok` and does not make the process unready."""
        self._clock = clock
        self._beat: float | None = None

    async def run(self) -> None:
        """Show that the event loop goes on, until cancelled."""
        while True:
            self._beat = self._clock()
            await asyncio.sleep(_BEAT_SECONDS)

    def routes(self) -> list[Route]:
        return [Route("/healthz", self.livez), Route("/livez", self.livez), Route("/readyz", self.readyz)]

    async def livez(self, _: Request) -> Response:
        return _answer([why for check in (self._loop_stands, *self._alive) if (why := check())], {})

    async def readyz(self, _: Request) -> Response:
        if not self._ready.is_set():
            return _answer(["the informer has not synced yet"], {})
        trouble = {kind: reflector.trouble for kind, reflector in self._reflectors.items() if reflector.trouble}
        return _answer(stale_kinds(self._reflectors, self._clock()), {**trouble, **self._notes()})

    def _loop_stands(self) -> str:
        late = 0.0 if self._beat is None else self._clock() - self._beat
        return f"the event loop is {format_seconds(late)} late" if late > LATE_SECONDS else ""


def stale_kinds(reflectors: Mapping[str, Reflector], now: float) -> list[str]:
    """Kinds whose objects are known and may be out of date for too long, each with the reason."""
    found = []
    for kind, reflector in reflectors.items():
        silent = now - reflector.heard
        longest = STALE_SECONDS if reflector.trouble else SILENT_SECONDS
        if reflector.lists and not reflector.is_missing and silent > longest:
            why = f": {reflector.trouble}" if reflector.trouble else ""
            found.append(f"{kind}: nothing was heard from the API server for {format_seconds(silent)}{why}")
    return found


def _answer(wrong: Sequence[str], notes: dict[str, str]) -> Response:
    if wrong:
        return PlainTextResponse("\n".join(wrong), _UNAVAILABLE)
    return PlainTextResponse("ok" + "".join(f"\n{about}: {what}" for about, what in notes.items()))
