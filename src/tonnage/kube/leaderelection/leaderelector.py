"""The elector that acquires and renews a Lease, in a thread of its own.

A scheduling cycle may keep the main event loop busy for longer than a Lease lasts.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf

import msgspec

from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.leaderelection.candidate import Candidate, Durations
from tonnage.kube.leaderelection.lease import LeaseStore
from tonnage.model.duration import format_seconds
from tonnage.model.timestamp import rfc3339_micro

log = logging.getLogger(__name__)

_RELEASE_TIMEOUT = 1.0
_STANDING_LEASES = 3
"""How many Leases the thread may take for one turn before it is held to stand still."""
_CONFLICT = 409
"""Another candidate was faster."""


class LeaderElectionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The Lease by which replicas agree who leads, and this replica's identity."""

    namespace: str
    name: str
    identity: str
    durations: Durations = Durations()


class LeaderElector:
    """Acquires and renews a Lease whenever that is possible, while `run` runs; all other methods are thread-safe."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Client]],
        config: LeaderElectionConfig,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._connect = connect
        """Opens a client for the thread's own event loop."""
        self._config = config
        self._clock = clock
        """A monotonic clock, which decides everything."""
        self._now = now
        """Seconds since 1970, for the times written into the Lease."""
        self._lock = threading.Lock()
        self._candidate = Candidate(config.identity, config.durations)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._is_stopped = self._releases = False
        self.trouble = ""
        """Why the last read or write of the Lease failed; empty if it did not."""
        self.sole_since = inf
        """Since when nobody else can have led in the present term, by the monotonic clock."""
        self._vacancy: tuple[str, float] | None = None
        """The resourceVersion of a Lease that nobody held when `look` read it, and when that was."""
        self._beat: float | None = None
        """When the thread last began to read or write the Lease; None while it does not run."""

    def __str__(self) -> str:
        return f"{self._config.namespace}/{self._config.name}"

    async def look(self, client: Client) -> None:
        """Read the Lease ahead of `run`, with a client of the present loop; KubeError if it cannot be read.

        If nobody holds it, and the Lease is unchanged when this process acquires it, nobody else led in between.
        """
        seen = await self._store(client).read(self._config.durations.renew_deadline / 2)
        if not seen.lease.holder:
            self._vacancy = seen.resource_version, time.monotonic()

    def _store(self, client: Client) -> LeaseStore:
        return LeaseStore(client, self._config.namespace, self._config.name)

    # -- for other threads

    @property
    def holder(self) -> str:
        """The observed holder; empty if nobody holds the Lease."""
        with self._lock:
            return self._candidate.holder

    @property
    def term(self) -> int:
        """The term in which this process may lead; 0 if it may not."""
        with self._lock:
            return self._candidate.term if self._candidate.time_left(self._clock()) else 0

    def fence(self) -> tuple[float, float]:
        """For how many seconds this process may still write, and the least for which a write is begun."""
        with self._lock:
            return self._candidate.may_write(self._clock()), self._config.durations.retry_period

    def alive(self) -> str:
        """Why the thread is held to stand still; empty if it does not run, or has lately looked at the Lease."""
        longest = _STANDING_LEASES * self._config.durations.lease_duration
        since = 0.0 if self._beat is None else self._clock() - self._beat
        return f"the thread that renews the lease {self} stands for {format_seconds(since)}" if since > longest else ""

    def start_leading(self, term: int) -> bool:
        """Lead in that term, which this replica has prepared for; False if the term is over."""
        with self._lock:
            self._candidate.start_leading(term)
            return self._candidate.may_write(self._clock()) > 0

    def stop(self, release: bool) -> None:
        """End `run`, with the Lease released or left to expire."""
        if self._is_stopped:
            return
        self._releases, self._is_stopped = release, True
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)

    # -- the thread

    def run(self, on_change: Callable[[], None]) -> None:
        """Keep the Lease until `stop`; `on_change` is called whenever the holder or the term may have changed."""
        asyncio.run(self._run(on_change))

    async def _run(self, on_change: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        client = await self._connect()
        lease = self._store(client)
        try:
            while not self._is_stopped:
                self._beat = self._clock()
                await self._try_acquire_or_renew(lease)
                on_change()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._config.durations.retry_period):
                        await self._wake.wait()
            if self._releases:
                await self._release(lease)
        finally:
            self._beat = None
            await client.close()

    async def _try_acquire_or_renew(self, lease: LeaseStore) -> None:
        """Read the Lease if need be, then renew it if this replica holds it, or acquire it if it is free."""
        seconds = self._config.durations.renew_deadline / 2
        try:
            if self._candidate.must_read:
                seen = await lease.read(seconds)
                with self._lock:
                    self._candidate.observe(seen, self._clock())
            sent = self._clock()
            desired = self._candidate.desired(sent, self._stamp())
            if desired is not None:
                with self._lock:
                    self._candidate.doubt()
                replaced, term = self._candidate.resource_version, self._candidate.term
                written = await lease.write(desired, replaced, seconds)
                with self._lock:
                    self._candidate.confirm(written, sent, self._clock())
                    if self._candidate.term != term:
                        self.sole_since = self._since(replaced)
            self._report("")
        except KubeError as error:
            if not (isinstance(error, StatusError) and error.status == _CONFLICT):
                self._report(f"the lease {self} cannot be held or looked at: {error}")

    async def _release(self, lease: LeaseStore) -> None:
        if self._candidate.must_read:
            return
        try:
            await lease.write(
                self._candidate.released(self._stamp()), self._candidate.resource_version, _RELEASE_TIMEOUT
            )
            log.info("the lease %s is given back", self)
        except KubeError as error:
            log.warning("the lease %s could not be given back: %s", self, error)

    def _since(self, replaced: str) -> float:
        """Since when nobody else can have led, now that a Lease of that resourceVersion was replaced."""
        vacancy, self._vacancy = self._vacancy, None
        return vacancy[1] if vacancy is not None and vacancy[0] == replaced else time.monotonic()

    def _stamp(self) -> str:
        return rfc3339_micro(self._now())

    def _report(self, trouble: str) -> None:
        """Log a failure once, not at each retry."""
        if trouble and trouble != self.trouble:
            log.warning("%s", trouble)
        self.trouble = trouble
