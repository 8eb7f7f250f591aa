"""Board: the current overview of a source, with its history and decisions, and whoever waits for the next change."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tonnage.dashboard.decisionlog import DecisionLog
from tonnage.dashboard.history import History
from tonnage.dashboard.source import ClusterSource
from tonnage.overview.overview import ClusterOverview, Overview

BUSY_SECONDS, QUIET_SECONDS = 1.0, 10.0
"""Time between looks while pages are open, and while none is."""
MOST_COLOURS = 6


class Colours:
    """Which colour a queue or model has: the first ones get one each and keep it, all others share one."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def see(self, names: list[str]) -> None:
        """Give colours to names, the most important first, as long as there are any."""
        for name in names:
            if name and name not in self._numbers and len(self._numbers) < MOST_COLOURS:
                self._numbers[name] = len(self._numbers)

    def of(self, name: str) -> str:
        """The colour's number, or `x` for the one that all others share."""
        number = self._numbers.get(name)
        return "x" if number is None else str(number)

    @property
    def named(self) -> dict[str, int]:
        return self._numbers


class Board:
    """What pages show; one loop keeps it current."""

    def __init__(self, source: ClusterSource, clock: Callable[[], float] = time.monotonic) -> None:
        self.source = source
        self.epoch = f"{time.time_ns():x}"
        """Tells pages of an earlier process apart."""
        self.history = History()
        self.decisions = DecisionLog()
        self.queue_colours, self.model_colours = Colours(), Colours()
        self.stopping = asyncio.Event()
        self.pages = 0
        """Streams that are open."""
        self.version = 0
        """Goes up with every look."""
        self._clock = clock
        self._overview: Overview | None = None
        self._followed: object = None
        self._binds = (0, 0.0)
        self._waiters: set[asyncio.Future[None]] = set()
        self._woken = asyncio.Event()
        self._looked, self._rest = 0.0, 0.0
        self.current: ClusterOverview = self.look()

    def look(self) -> ClusterOverview:
        """Bring everything up to date."""
        started = self._clock()
        source = self.source
        source.advance()
        if self._overview is None or source.cluster is not self._followed:
            self._overview = Overview(source.cluster, source.plugins)
            self._followed = source.cluster
        found = self.current = self._overview.update(source.decision_of, source.figures())
        now = source.now()
        self.decisions.notice(source, [row for group in found.waiting for row in group.pods], now)
        held = {queue.name: queue.cards for queue in found.queues}
        self.queue_colours.see(sorted(held, key=lambda name: (-held[name], name)))
        models: dict[str, int] = {}
        for node in found.nodes:
            models[node.model] = models.get(node.model, 0) + len(node.cards)
        self.model_colours.see(sorted(models, key=lambda name: (-models[name], name)))
        if self.history.is_due(now):
            before, when = self._binds
            rate = (self.decisions.binds - before) / (now - when) if now > when > 0 else 0.0
            self._binds = self.decisions.binds, now
            totals = found.totals
            self.history.add(
                now,
                {
                    "allocated": totals.memory_percent,
                    "fragmentation": totals.fragmentation_percent,
                    "usable": totals.usable,
                    "waiting": float(totals.waiting),
                    "binds": rate,
                },
                held,
            )
        self.version += 1
        self._looked = self._clock()
        # A look that takes long leaves others nine tenths of the time.
        self._rest = max(BUSY_SECONDS, 9 * (self._looked - started))
        return found

    def freshen(self) -> None:
        """Look again for a page that is opened, unless the last look is recent: while none is open, looks are rare."""
        if self._clock() >= self._looked + self._rest:
            self.look()

    async def run(self) -> None:
        """Look again and again, more often while pages are open, and tell them."""
        while not self.stopping.is_set():
            self.look()
            self._wake()
            pause = self._rest if self.pages or self.source.is_fast else max(QUIET_SECONDS, self._rest)
            self._woken.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
                await asyncio.sleep(max(0.0, self._looked + self._rest - self._clock()))
            except TimeoutError:
                pass

    @contextmanager
    def open_page(self) -> Iterator[None]:
        """Count a page that is open."""
        self.pages += 1
        if self.pages == 1:
            self._woken.set()
        try:
            yield
        finally:
            self.pages -= 1

    async def changed(self) -> bool:
        """Wait for the next look; false if the process ends."""
        if self.stopping.is_set():
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
        return not self.stopping.is_set()

    def stop(self) -> None:
        """End the loop and all streams."""
        self.stopping.set()
        self._woken.set()
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
