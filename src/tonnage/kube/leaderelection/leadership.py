"""The leadership of a replica by a Lease of its own: when it starts leading, stops, and stands by.

A replica that acquires the Lease lists the cluster afresh and only then decides. One that cannot renew the Lease in
time stops leading, whether or not another leads, and stands by with its informer running.
"""

import asyncio
import logging
import time
from contextlib import suppress
from math import inf

from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.fence import always
from tonnage.kube.leaderelection.leaderelector import LeaderElector
from tonnage.model.duration import format_seconds

log = logging.getLogger(__name__)

DRAIN_SECONDS = 1.5
"""Seconds at the end for writes that were begun; if one takes longer, the Lease is not released but expires."""
_RESIGN_SECONDS = 5.0
_POLL_SECONDS = 0.02


class Leadership:
    """Whether this process leads, while `run` runs; always, if there is no elector."""

    def __init__(self, elector: LeaderElector | None, callbacks: LeaderCallbacks) -> None:
        self._elector = elector
        self._callbacks = callbacks
        self._holder = ""
        self._term = 0
        """The term that this process leads in or prepares for; 0 while it may not lead."""
        self.sole_since = inf
        """Since when nobody else can have led, if this process may, by the monotonic clock."""
        self.has_observed = asyncio.Event()
        """Set once the Lease was observed."""
        self._role_change: asyncio.Task[None] | None = None
        self.leading = asyncio.Event()
        """Set while this process leads, as far as the event loop knows; `fence` is exact."""
        self._is_resigning = False
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()

    @property
    def leads(self) -> bool:
        """Whether this process may decide now."""
        left, least = self.fence()
        return left >= least

    async def until_leading(self) -> None:
        """Wait until this process leads; also while the renewal of its Lease is late."""
        await self.leading.wait()
        while not self.leads:
            await asyncio.sleep(_POLL_SECONDS)
            await self.leading.wait()

    def fence(self) -> tuple[float, float]:
        """For how many seconds this process may still write, and the least for which a write is begun."""
        if not self.leading.is_set():
            return 0.0, inf
        return always() if self._elector is None else self._elector.fence()

    @property
    def trouble(self) -> str:
        """Why the last read or write of the Lease failed; empty if it did not."""
        return "" if self._elector is None else self._elector.trouble

    def alive(self) -> str:
        """Why the thread that renews the Lease is held to stand still; empty if it is not."""
        return "" if self._elector is None else self._elector.alive()

    async def run(self) -> None:
        """Lead whenever that is possible, until told to resign."""
        try:
            await (self._run_alone() if self._elector is None else self._run_elected(self._elector))
        finally:
            self._change_role(None)
            self._stopped.set()

    async def resign(self) -> None:
        """Stop leading, let writes that were begun end, and release the Lease."""
        self._is_resigning = True
        self._changed.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_RESIGN_SECONDS):
                await self._stopped.wait()

    async def _run_alone(self) -> None:
        self.has_observed.set()
        taking_over = asyncio.create_task(self._take_over(None, 0))
        taking_over.add_done_callback(lambda _: self._changed.set())
        self._change_role(taking_over)
        while not self._is_resigning:
            await self._changed.wait()
            self._changed.clear()
            self._raise_failure()
        await self._drain_writes()

    async def _run_elected(self, elector: LeaderElector) -> None:
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            loop.call_soon_threadsafe(self._changed.set)

        renewal = asyncio.create_task(asyncio.to_thread(elector.run, on_change))
        renewal.add_done_callback(lambda _: self._changed.set())
        try:
            while not self._is_resigning and not renewal.done():
                await self._changed.wait()
                self._changed.clear()
                self._observe(elector)
            are_over = await self._drain_writes()
            if not are_over:
                log.warning("writes without an answer are left; the lease is not given back but runs out")
            elector.stop(release=are_over)
            await renewal
        finally:
            elector.stop(release=False)

    def _observe(self, elector: LeaderElector) -> None:
        """Start or stop leading if the Lease has another term."""
        self._raise_failure()
        holder, term = elector.holder, elector.term
        self.has_observed.set()
        if holder != self._holder:
            self._holder = holder
            log.info("the lease %s is held by %s", elector, holder or "nobody")
        if term == self._term:
            return
        if self._term:
            log.warning("this replica leads no longer%s", f": {self.trouble}" if self.trouble else "")
        self._term, self.sole_since = term, elector.sole_since
        self._change_role(asyncio.create_task(self._take_over(elector, term)) if term else None)

    def _raise_failure(self) -> None:
        """A failure in taking over ends the process, so that another replica leads."""
        if self._role_change is not None and self._role_change.done():
            self._role_change.result()

    def _change_role(self, work: asyncio.Task[None] | None) -> None:
        """Stop leading, and start taking over if there is a task for it."""
        if self._role_change is not None:
            self._role_change.cancel()
        self._role_change = work
        if self.leading.is_set():
            self.leading.clear()
            self._callbacks.on_stopped_leading()

    async def _take_over(self, elector: LeaderElector | None, term: int) -> None:
        started = time.monotonic()
        await self._until_idle()
        await self._callbacks.prepare()
        if elector is not None:
            if not elector.start_leading(term):
                return
            log.info("this replica leads, %s after it took the lease", format_seconds(time.monotonic() - started))
        self.leading.set()
        self._callbacks.on_started_leading()

    async def _drain_writes(self) -> bool:
        """Begin no write; True if all writes that were begun have their answer in time."""
        self._change_role(None)
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._until_idle()
        except TimeoutError:
            return False
        return True

    async def _until_idle(self) -> None:
        while not self._callbacks.is_idle():
            await asyncio.sleep(_POLL_SECONDS)
