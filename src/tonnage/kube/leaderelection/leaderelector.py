"""Keeping a Lease, in a thread of its own: a cycle may keep the event loop busy for longer than a Lease lasts."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.leaderelection.candidate import Candidate, Durations
from tonnage.kube.leaderelection.lease import LeaseStore
from tonnage.model.timestamp import rfc3339_micro

log = logging.getLogger(__name__)

_GIVING_BACK = 1.0
_CONFLICT = 409
"""Another candidate was faster."""


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """By which Lease replicas agree, and who this one is."""

    namespace: str
    name: str
    identity: str
    durations: Durations = Durations()


class LeaderElector:
    """Takes and renews a Lease whenever that is possible, while `run` runs; the rest may be asked by any thread."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Client]],
        election: Election,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._connect = connect
        """Opens a client for the thread's own event loop."""
        self._election = election
        self._clock = clock
        """Seconds that never go back; everything is decided by it."""
        self._now = now
        """Seconds since 1970, for what is written."""
        self._lock = threading.Lock()
        self._candidate = Candidate(election.identity, election.durations)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._ends = self._gives_back = False
        self.trouble = ""
        """Why the Lease could not be written or looked at, empty while all is well."""

    def __str__(self) -> str:
        return f"{self._election.namespace}/{self._election.name}"

    # -- asked by others

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as is known; empty if nobody does."""
        with self._lock:
            return self._candidate.holder

    @property
    def term(self) -> int:
        """The term in which this process may lead; 0 if it may not."""
        with self._lock:
            return self._candidate.term if self._candidate.left(self._clock()) else 0

    def fence(self) -> tuple[float, float]:
        """For how many seconds this process may still write, and the least for which a write is begun."""
        with self._lock:
            return self._candidate.may_write(self._clock()), self._election.durations.period

    def lead(self, term: int) -> bool:
        """Everything is ready for leading in that term; whether it still lasts."""
        with self._lock:
            self._candidate.lead(term)
            return self._candidate.may_write(self._clock()) > 0

    def end(self, give_back: bool) -> None:
        """End `run`, with the Lease given back or left to run out."""
        if self._ends:
            return
        self._gives_back, self._ends = give_back, True
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)

    # -- the thread

    def run(self, changed: Callable[[], None]) -> None:
        """Keep the Lease until told to end; `changed` is called whenever something may have changed."""
        asyncio.run(self._run(changed))

    async def _run(self, changed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        client = await self._connect()
        lease = LeaseStore(client, self._election.namespace, self._election.name)
        try:
            while not self._ends:
                await self._step(lease)
                changed()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._election.durations.period):
                        await self._wake.wait()
            if self._gives_back:
                await self._give_back(lease)
        finally:
            await client.close()

    async def _step(self, lease: LeaseStore) -> None:
        """Look at the Lease if that is needed, then renew or take it if it is ours or nobody's."""
        seconds = self._election.durations.deadline / 2
        try:
            if self._candidate.must_look:
                seen = await lease.read(seconds)
                with self._lock:
                    self._candidate.saw(seen, self._clock())
            sent = self._clock()
            wish = self._candidate.wish(sent, self._stamp())
            if wish is not None:
                with self._lock:
                    self._candidate.doubt()
                written = await lease.write(wish, self._candidate.version, seconds)
                with self._lock:
                    self._candidate.wrote(written, sent, self._clock())
            self._complain("")
        except KubeError as error:
            if not (isinstance(error, StatusError) and error.status == _CONFLICT):
                self._complain(f"the lease {self} cannot be held or looked at: {error}")

    async def _give_back(self, lease: LeaseStore) -> None:
        if self._candidate.must_look:
            return
        try:
            await lease.write(self._candidate.given_back(self._stamp()), self._candidate.version, _GIVING_BACK)
            log.info("the lease %s is given back", self)
        except KubeError as error:
            log.warning("the lease %s could not be given back: %s", self, error)

    def _stamp(self) -> str:
        return rfc3339_micro(self._now())

    def _complain(self, trouble: str) -> None:
        """Say once what is wrong."""
        if trouble and trouble != self.trouble:
            log.warning("%s", trouble)
        self.trouble = trouble
