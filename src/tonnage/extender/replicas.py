"""The replicas of the extender: which of them leads, how one takes over, and which answers a request.

kube-scheduler calls the extender beside it, so an extender leads while its own kube-scheduler holds the Lease. A
replica that is to lead waits until no previous leader writes, lists the cluster afresh, and only then decides. A
replica that is called while another leads forwards the request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from tonnage.extender.forwarding import Forwarder, ForwardError, PeerTls
from tonnage.extender.peers import FOLLOWER, LEADER, Peer, Peers
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.lease import LeaseStore
from tonnage.kube.leaderelection.leasefollower import LeaseFollower, LeaseTerm
from tonnage.kube.supervision import failed
from tonnage.model.duration import format_seconds

log = logging.getLogger(__name__)

PATIENCE = 25.0
"""Seconds that a request waits until a replica leads: kube-scheduler gives its extender 30."""
_READ_PERIODS = 3
"""How long a read of the Lease may take, in retry periods."""
_FRESH = 0.1
"""A request relies on a read of the Lease that is not older than that many seconds."""
_PAUSE = 0.5
_RESIGN_SECONDS = 2.0


class SchedulerLeaseConfig(msgspec.Struct, frozen=True, kw_only=True):
    """kube-scheduler's Lease, by which replicas agree who leads, and how they find each other."""

    lease_namespace: str
    lease_name: str
    host: str
    """The host in the identity of the kube-scheduler beside this replica."""
    pod_namespace: str
    pod: str
    peer_tls: PeerTls | None = None
    """None: a replica that does not lead forwards nothing."""


class NobodyLeadsError(Exception):
    """No replica can answer a request now; the message says why."""


class Replicas:
    """One replica among others, while `run` runs."""

    def __init__(
        self, client: Client, config: SchedulerLeaseConfig, clock: Callable[[], float], callbacks: LeaderCallbacks
    ) -> None:
        self._lease = LeaseStore(client, config.lease_namespace, config.lease_name)
        self._clock = clock
        self._callbacks = callbacks
        self._follower = LeaseFollower(config.host)
        self._peers = Peers(client, config.pod_namespace, config.pod)
        self.forwarder = Forwarder(config.peer_tls)
        self._address: tuple[LeaseTerm, str] | None = None
        self._role_change: asyncio.Task[None] | None = None
        self._term: LeaseTerm | None = None
        self._read_now = asyncio.Event()
        self._observed = asyncio.Event()
        self._trouble = ""

    @property
    def leads(self) -> bool:
        """Whether this replica may decide and write now."""
        return self.fence()[0] > 0

    def fence(self) -> tuple[float, float]:
        """For how many seconds this replica may still write, and the least for which a write is begun."""
        return self._follower.may_write(self._clock()), self._follower.retry_period

    # -- the Lease

    async def run(self) -> None:
        """Read the Lease again and again, and change roles with it, until cancelled."""
        try:
            while True:
                if not await self._read_lease():
                    # Requests that wait for a read must not make the replica read without a pause.
                    await asyncio.sleep(self._follower.retry_period)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._follower.retry_period):
                        await self._read_now.wait()
        finally:
            if self._role_change is not None:
                self._role_change.cancel()
                await asyncio.gather(self._role_change, return_exceptions=True)
            await self._resign()
            await self.forwarder.close()

    async def _resign(self) -> None:
        """Label this replica's pod a follower, if that is quick, so that the next leader need not wait."""
        self._follower.resign()
        if self._callbacks.is_idle():
            with suppress(KubeError, TimeoutError):
                async with asyncio.timeout(_RESIGN_SECONDS):
                    own = await self._peers.own()
                    if own is not None:
                        await self._peers.label(own, FOLLOWER)

    async def _read_lease(self) -> bool:
        """Read the Lease and change roles if it has another term; False if it could not be read."""
        self._read_now.clear()
        asked = self._clock()
        try:
            seconds = max(1.0, _READ_PERIODS * self._follower.retry_period)
            lease = (await self._lease.read(seconds)).lease
        except KubeError as error:
            self._report(f"the lease cannot be looked at: {error}")
        else:
            self._report("")
            self._follower.observe(lease, asked, self._clock())
            if self._follower.term != self._term:
                self._change_role(self._follower.term)
        self._notify()
        return not self._trouble

    def _change_role(self, term: LeaseTerm) -> None:
        """Stop leading, and take over or step down for a new term."""
        self._term = term
        self._callbacks.on_stopped_leading()
        if self._role_change is not None:
            self._role_change.cancel()
        own = self._follower.is_own
        log.info("the lease is held by %s", f"{term.holder}, beside this replica" if own else term.holder or "nobody")
        self._role_change = asyncio.create_task(
            self._retry(lambda: self._take_over(term) if own else self._step_down())
        )

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a role change, and again after an unexpected error."""
        while True:
            try:
                return await work()
            except Exception as error:
                failed("role change", error)
                await asyncio.sleep(_PAUSE)

    async def _take_over(self, term: LeaseTerm) -> None:
        started = self._clock()
        # If the pod still had the leader label of an earlier term, setting it again would not change the pod.
        await self._step_down()
        await self._until_previous_stopped()
        await self._callbacks.prepare()
        await self._label_self(LEADER)
        others = await self._others()
        # This read shows a replica that has started to lead meanwhile because it saw the follower label.
        await self._until_read_after(self._clock())
        if not self._follower.start_leading(term):
            return
        log.info("this replica leads, %s after its kube-scheduler was seen to", format_seconds(self._clock() - started))
        self._callbacks.on_started_leading()
        self._notify()
        for peer in others:
            if peer.role == LEADER:
                with suppress(KubeError):
                    await self._peers.label(peer, FOLLOWER)

    async def _until_previous_stopped(self) -> None:
        """Wait until no previous leader writes any more."""
        while (wait := self._follower.clear_at - self._clock()) > 0:
            if await self._have_stepped_down():
                return
            await asyncio.sleep(min(wait, self._follower.retry_period))

    async def _have_stepped_down(self) -> bool:
        """Whether all other replicas are labelled followers; False if the previous leader or its pod is unknown."""
        others = await self._others()
        before = self._follower.previous_host
        is_heard = bool(before) and any(peer.is_called(before) for peer in others)
        return is_heard and not any(peer.role == LEADER for peer in others)

    async def _step_down(self) -> None:
        while not self._callbacks.is_idle():
            await asyncio.sleep(0.05)
        await self._label_self(FOLLOWER)

    async def _others(self) -> list[Peer]:
        """The pods of the other replicas; none if they cannot be read."""
        try:
            return [peer for peer in await self._peers.all() if peer.name != self._peers.name]
        except KubeError as error:
            log.warning("the other replicas' pods cannot be read: %s", error)
            return []

    async def _label_self(self, role: str) -> None:
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

    # -- requests

    async def answer_elsewhere(self, path: str, body: bytes, was_forwarded: bool) -> bytes | None:
        """The leader's answer; None if this replica leads, NobodyLeadsError if no replica does."""
        if self.leads:
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                # kube-scheduler may call before this replica has read that it leads.
                await self._until_read_after(self._clock() - _FRESH)
                while not self.leads and (self._follower.is_own or not self._follower.leader):
                    await self._observed.wait()
        except TimeoutError:
            raise NobodyLeadsError(self._why_not()) from None
        if self.leads:
            return None
        if was_forwarded:
            raise NobodyLeadsError(f"this replica leads no longer, {self._follower.leader} does")
        return await self._forward(path, body)

    async def _until_read_after(self, moment: float) -> None:
        """Wait for a read of the Lease that was begun after a moment."""
        while self._follower.asked_at <= moment:
            self._read_now.set()
            await self._observed.wait()

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
        if self._follower.time_left(self._clock()) > 0:
            return "this replica is still taking over"
        return "the lease was not seen renewed in time, so nothing is decided"

    def _notify(self) -> None:
        self._observed.set()
        self._observed = asyncio.Event()

    def _report(self, trouble: str) -> None:
        """Log a failure once, not at each retry."""
        if trouble and trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble
