"""Replicas: which of them leads, how one takes over, and who answers a question.

kube-scheduler asks the extender beside it, so an extender leads while its own kube-scheduler holds the Lease. One that
comes to lead waits until nobody who led before writes any more, lists the cluster afresh, and only then decides. One
that is asked while another leads hands the question on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from tonnage.extender.forwarding import Forwarder, ForwardError
from tonnage.extender.peers import FOLLOWER, LEADER, Peer, Peers
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.lease import LeaseStore
from tonnage.kube.leaderelection.leasefollower import LeaseFollower, LeaseTerm

log = logging.getLogger(__name__)

PATIENCE = 25.0
"""How long a question waits until somebody leads: kube-scheduler gives its extender 30 seconds."""
_LOOK = 3
"""How long a look may take, as a multiple of the time between two."""
_FRESH = 0.1
"""A look that is not older than that many seconds is news enough for a question."""
_PAUSE = 0.5
_RESIGN_SECONDS = 2.0


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """By which Lease replicas agree, and who this one is."""

    lease_namespace: str
    lease_name: str
    host: str
    """What the kube-scheduler beside this replica calls its host."""
    pod_namespace: str
    pod: str
    port: int
    """Where all replicas listen."""
    certificate: str = ""


class NobodyLeadsError(Exception):
    """Nobody can answer a question now, and why."""


class Replicas:
    """One replica among others, for as long as `run` runs."""

    def __init__(
        self, client: Client, election: Election, clock: Callable[[], float], callbacks: LeaderCallbacks
    ) -> None:
        self._lease = LeaseStore(client, election.lease_namespace, election.lease_name)
        self._clock = clock
        self._callbacks = callbacks
        self._follower = LeaseFollower(election.host)
        self._peers = Peers(client, election.pod_namespace, election.pod)
        self.forwarder = Forwarder(election.host, election.port, election.certificate)
        self._address: tuple[LeaseTerm, str] | None = None
        self._turning: asyncio.Task[None] | None = None
        self._term: LeaseTerm | None = None
        self._look_now = asyncio.Event()
        self._news = asyncio.Event()
        self._trouble = ""

    @property
    def leads(self) -> bool:
        """Whether this replica may decide and write now."""
        return self.fence()[0] > 0

    def fence(self) -> tuple[float, float]:
        """For how many seconds this replica may still write, and the least for which a write is begun."""
        return self._follower.may_write(self._clock()), self._follower.period

    # -- following the Lease

    async def run(self) -> None:
        """Follow the Lease until cancelled."""
        try:
            while True:
                if not await self._look():
                    # Whoever waits for a look must not make us ask without a pause.
                    await asyncio.sleep(self._follower.period)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._follower.period):
                        await self._look_now.wait()
        finally:
            if self._turning is not None:
                self._turning.cancel()
                await asyncio.gather(self._turning, return_exceptions=True)
            await self._resign()
            await self.forwarder.close()

    async def _resign(self) -> None:
        """Say that the end has come, as long as that is quick, so that nobody has to wait for it."""
        self._follower.resign()
        if self._callbacks.is_idle():
            with suppress(KubeError, TimeoutError):
                async with asyncio.timeout(_RESIGN_SECONDS):
                    own = await self._peers.own()
                    if own is not None:
                        await self._peers.label(own, FOLLOWER)

    async def _look(self) -> bool:
        """Look at the Lease and do what follows from it; whether it could be seen."""
        self._look_now.clear()
        asked = self._clock()
        try:
            seconds = max(1.0, _LOOK * self._follower.period)
            lease = (await self._lease.read(seconds)).lease
        except KubeError as error:
            self._complain(f"the lease cannot be looked at: {error}")
        else:
            self._complain("")
            self._follower.observe(lease, asked, self._clock())
            if self._follower.term != self._term:
                self._turn(self._follower.term)
        self._tell()
        return not self._trouble

    def _turn(self, term: LeaseTerm) -> None:
        """Another term has begun."""
        self._term = term
        self._callbacks.cease()
        if self._turning is not None:
            self._turning.cancel()
        own = self._follower.is_own
        log.info("the lease is held by %s", f"{term.holder}, beside this replica" if own else term.holder or "nobody")
        self._turning = asyncio.create_task(self._insist(lambda: self._take_over(term) if own else self._step_down()))

    async def _insist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it, and try again after a mistake of ours."""
        while True:
            try:
                return await work()
            except Exception:
                log.exception("the role could not be changed; trying again")
                await asyncio.sleep(_PAUSE)

    async def _take_over(self, term: LeaseTerm) -> None:
        started = self._clock()
        # Were it still called leader from an earlier term, calling it so again would not be a change of the pod.
        await self._step_down()
        await self._until_clear()
        await self._callbacks.prepare()
        await self._say(LEADER)
        others = await self._others()
        # Whoever has come to lead meanwhile, and has read that we do not, is seen now.
        await self._look_after(self._clock())
        if not self._follower.lead(term):
            return
        log.info("this replica leads, %.1f s after its kube-scheduler was seen to", self._clock() - started)
        self._callbacks.begin()
        self._tell()
        for peer in others:
            if peer.role == LEADER:
                with suppress(KubeError):
                    await self._peers.label(peer, FOLLOWER)

    async def _until_clear(self) -> None:
        """Wait until nobody who led before writes any more."""
        while (wait := self._follower.clear - self._clock()) > 0:
            if await self._have_stepped_down():
                return
            await asyncio.sleep(min(wait, self._follower.period))

    async def _have_stepped_down(self) -> bool:
        """Whether all others say that they do not lead; not if it is not known who led before, or where it is."""
        others = await self._others()
        before = self._follower.before
        is_heard = bool(before) and any(peer.is_called(before) for peer in others)
        return is_heard and not any(peer.role == LEADER for peer in others)

    async def _step_down(self) -> None:
        while not self._callbacks.is_idle():
            await asyncio.sleep(0.05)
        await self._say(FOLLOWER)

    async def _others(self) -> list[Peer]:
        """The pods of the other replicas; none if they cannot be read."""
        try:
            return [peer for peer in await self._peers.all() if peer.name != self._peers.name]
        except KubeError as error:
            log.warning("the other replicas' pods cannot be read: %s", error)
            return []

    async def _say(self, role: str) -> None:
        """Label the pod of this replica, however long it takes."""
        trouble = ""
        while True:
            try:
                own = await self._peers.own()
                if own is None:
                    log.warning("there is no pod %s to be labelled; is POD_NAME right?", self._peers.name)
                else:
                    await self._peers.label(own, role)
                return
            except KubeError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("the pod %s cannot be labelled %s: %s", self._peers.name, role, error)
                await asyncio.sleep(_PAUSE)

    # -- questions

    async def answer_elsewhere(self, path: str, body: bytes, was_forwarded: bool) -> bytes | None:
        """The leader's answer; nothing if this replica leads, NobodyLeadsError if nobody does."""
        if self.leads:
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                # A kube-scheduler may ask before we have noticed that it leads.
                await self._look_after(self._clock() - _FRESH)
                while not self.leads and (self._follower.is_own or not self._follower.leader):
                    await self._news.wait()
        except TimeoutError:
            raise NobodyLeadsError(self._why_not()) from None
        if self.leads:
            return None
        if was_forwarded:
            raise NobodyLeadsError(f"this replica leads no longer, {self._follower.leader} does")
        return await self._forward(path, body)

    async def _look_after(self, moment: float) -> None:
        """Wait until there was a look at the Lease that was begun after a moment."""
        while self._follower.asked <= moment:
            self._look_now.set()
            await self._news.wait()

    async def _forward(self, path: str, body: bytes) -> bytes:
        try:
            address = await self._leaders_address()
            return await self.forwarder.ask(address, path, body)
        except (ForwardError, KubeError) as error:
            self._address = None
            raise NobodyLeadsError(f"{self._follower.leader} leads and cannot be asked: {error}") from error

    async def _leaders_address(self) -> str:
        term, leader = self._follower.term, self._follower.leader
        if self._address is not None and self._address[0] == term:
            return self._address[1]
        for peer in await self._peers.all():
            if peer.is_called(leader) and peer.address:
                self._address = term, peer.address
                return peer.address
        raise ForwardError(f"no pod with the label hami.io/scheduler-role and an address is called {leader}")

    def _why_not(self) -> str:
        if self._trouble:
            return self._trouble
        if not self._follower.leader:
            return f"no kube-scheduler holds the lease {self._lease}"
        if self._follower.left(self._clock()) > 0:
            return "this replica is still taking over"
        return "the lease was not seen renewed in time, so nothing is decided"

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _complain(self, trouble: str) -> None:
        """Say once what is wrong."""
        if trouble and trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble
