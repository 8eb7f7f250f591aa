"""Leading: taking over from whoever led before, and standing by while another leads.

One that comes to lead lists the cluster afresh and only then decides. One that cannot renew the Lease in time leads no
longer, whether or not another does, and stands by with its picture kept current.
"""

import asyncio
import logging
import time
from contextlib import suppress
from math import inf

from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.fence import always
from tonnage.kube.leaderelection.leaderelector import LeaderElector

log = logging.getLogger(__name__)

LAST_WRITES = 1.5
"""Seconds at the end for writes that were begun; if one takes longer, the Lease is not given back but runs out."""
_LAST_SECONDS = 5.0
_MOMENT = 0.02


class Leadership:
    """Whether this process leads, for as long as `run` runs; always, if there is no Lease to be kept."""

    def __init__(self, elector: LeaderElector | None, callbacks: LeaderCallbacks) -> None:
        self._elector = elector
        self._callbacks = callbacks
        self._holder = ""
        self._term = 0
        """The term for which taking over was begun; 0 while this process may not lead."""
        self.since = inf
        """When the Lease was seen to be this process's, for the present term."""
        self.has_looked = asyncio.Event()
        """Set once it is known who leads."""
        self._turning: asyncio.Task[None] | None = None
        self.led = asyncio.Event()
        """Set while this process leads, as far as it has noticed; `fence` says how it is."""
        self._is_resigning = False
        self._news = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def leads(self) -> bool:
        """Whether this process may decide now."""
        left, least = self.fence()
        return left >= least

    async def until_it_may_decide(self) -> None:
        """Wait until this process leads; also for a Lease that is late to be renewed and not lost yet."""
        while not self.leads:
            await self.led.wait()
            await asyncio.sleep(_MOMENT)

    def fence(self) -> tuple[float, float]:
        """For how many seconds this process may still write, and the least for which a write is begun."""
        if not self.led.is_set():
            return 0.0, inf
        return always() if self._elector is None else self._elector.fence()

    @property
    def trouble(self) -> str:
        """Why the Lease cannot be held or looked at; empty while all is well."""
        return "" if self._elector is None else self._elector.trouble

    async def run(self) -> None:
        """Lead whenever that is possible, until told to resign."""
        try:
            await (self._alone() if self._elector is None else self._among_others(self._elector))
        finally:
            self._turn(None)
            self._ended.set()

    async def resign(self) -> None:
        """Decide nothing more, let writes that were begun end, and let another lead."""
        self._is_resigning = True
        self._news.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._ended.wait()

    async def _alone(self) -> None:
        self.has_looked.set()
        taking_over = asyncio.create_task(self._take_over(None, 0))
        taking_over.add_done_callback(lambda _: self._news.set())
        self._turn(taking_over)
        while not self._is_resigning:
            await self._news.wait()
            self._news.clear()
            self._look_for_mistake()
        await self._are_writes_over()

    async def _among_others(self, elector: LeaderElector) -> None:
        loop = asyncio.get_running_loop()

        def changed() -> None:
            loop.call_soon_threadsafe(self._news.set)

        keeping = asyncio.create_task(asyncio.to_thread(elector.run, changed))
        keeping.add_done_callback(lambda _: self._news.set())
        try:
            while not self._is_resigning and not keeping.done():
                await self._news.wait()
                self._news.clear()
                self._follow(elector)
            are_over = await self._are_writes_over()
            if not are_over:
                log.warning("writes without an answer are left; the lease is not given back but runs out")
            elector.end(give_back=are_over)
            await keeping
        finally:
            elector.end(give_back=False)

    def _follow(self, elector: LeaderElector) -> None:
        """Change roles if the Lease says so."""
        self._look_for_mistake()
        holder, term = elector.holder, elector.term
        self.has_looked.set()
        if holder != self._holder:
            self._holder = holder
            log.info("the lease %s is held by %s", elector, holder or "nobody")
        if term == self._term:
            return
        if self._term:
            log.warning("this replica leads no longer%s", f": {self.trouble}" if self.trouble else "")
        self._term, self.since = term, time.monotonic()
        self._turn(asyncio.create_task(self._take_over(elector, term)) if term else None)

    def _look_for_mistake(self) -> None:
        """One in taking over ends the process, so that another leads."""
        if self._turning is not None and self._turning.done():
            self._turning.result()

    def _turn(self, work: asyncio.Task[None] | None) -> None:
        """Stop leading, and begin what makes it possible again."""
        if self._turning is not None:
            self._turning.cancel()
        self._turning = work
        if self.led.is_set():
            self.led.clear()
            self._callbacks.cease()

    async def _take_over(self, elector: LeaderElector | None, term: int) -> None:
        started = time.monotonic()
        await self._until_idle()
        await self._callbacks.prepare()
        if elector is not None:
            if not elector.lead(term):
                return
            log.info("this replica leads, %.1f s after it took the lease", time.monotonic() - started)
        self.led.set()
        self._callbacks.begin()

    async def _are_writes_over(self) -> bool:
        """Begin nothing more; whether everything that was begun ends soon."""
        self._turn(None)
        try:
            async with asyncio.timeout(LAST_WRITES):
                await self._until_idle()
        except TimeoutError:
            return False
        return True

    async def _until_idle(self) -> None:
        while not self._callbacks.is_idle():
            await asyncio.sleep(_MOMENT)
