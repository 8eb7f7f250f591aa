"""Taking the Lease, leading, ceasing to lead and resigning, with an API server and a clock that the test plays."""

import asyncio
import json
import threading
import time

import pytest

from tests.waiting import PATIENCE, until_true
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.leaderelection import leadership as module
from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.kube.leaderelection.candidate import Durations
from tonnage.kube.leaderelection.leaderelector import LeaderElectionConfig, LeaderElector
from tonnage.kube.leaderelection.leadership import Leadership

DURATIONS = Durations(lease_duration=9, renew_deadline=6, retry_period=0.01)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/system/leases"


class Api:
    """One Lease with versions, which can be made to fail."""

    def __init__(self, **spec):
        self.version = 1 if spec else 0
        self.spec = spec
        self.failure = None
        self.written = []
        self.looks = 0
        self._lock = threading.Lock()

    def hold(self, holder):
        with self._lock:
            self.version += 1
            self.spec = {"holderIdentity": holder, "leaseDurationSeconds": 9, "leaseTransitions": 1}
            self.spec["renewTime"] = f"by {holder}, {self.version}"

    async def get(self, path, query=None, timeout=0):
        assert path == f"{LEASES}/lease"
        await self._wait()
        if not self.version:
            raise StatusError(404, "NotFound", "no lease")
        with self._lock:
            return self._shown()

    async def request(self, method, path, *, body=None, type_="", timeout=0):
        assert (method, path) == (("PATCH", f"{LEASES}/lease") if self.version else ("POST", LEASES))
        await self._wait()
        with self._lock:
            if body["metadata"].get("resourceVersion", "0") != str(self.version):
                raise StatusError(409, "Conflict", "the lease has changed")
            self.version += 1
            self.spec |= body["spec"]
            self.written.append(body["spec"]["holderIdentity"])
            return self._shown()

    async def close(self):
        pass

    async def _wait(self):
        self.looks += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure

    def _shown(self):
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "spec": self.spec}).encode()


class World:
    """The replica `me`, whose Lease lasts for 9 seconds of the test's clock and is looked at all the time."""

    def __init__(self, api, elected=True, clock=None, durations=DURATIONS):
        self.api, self.now, self.is_idle = api, 1000.0, True
        self.told, self.elected = [], elected
        self.go_on = asyncio.Event()
        self.go_on.set()
        election = LeaderElectionConfig(namespace="system", name="lease", identity="me", durations=durations)
        self.elector = (
            LeaderElector(self.connect, election, clock or (lambda: self.now), self.wall) if elected else None
        )
        callbacks = LeaderCallbacks(self.prepare, lambda: self.told.append("begin"), self.cease, lambda: self.is_idle)
        self.leadership = Leadership(self.elector, callbacks)
        self.seconds = 0.0

    async def connect(self):
        return self.api

    def wall(self):
        self.seconds += 1
        return self.seconds

    async def prepare(self):
        self.told.append("prepare")
        await self.go_on.wait()

    def cease(self):
        self.told.append("cease")

    @property
    def left(self):
        return self.leadership.fence()[0]

    async def until(self, true):
        await until_true(true, 0.005)

    async def rounds(self, count=3):
        """Let it look at the Lease some times more."""
        if self.elected:
            before = self.api.looks
            await self.until(lambda: self.api.looks >= before + 2 * count)
        await asyncio.sleep(0.03 * count)


def play(scenario, api=None, **more):
    async def main():
        world = World(api or Api(), **more)
        running = asyncio.create_task(world.leadership.run())
        world.running = running
        try:
            await scenario(world)
        finally:
            running.cancel()
            (failure,) = await asyncio.gather(running, return_exceptions=True)
        if isinstance(failure, Exception):
            raise failure

    asyncio.run(main())


def test_it_makes_the_lease_and_leads_once_the_cluster_is_listed():
    async def scenario(world):
        world.go_on.clear()
        await world.until(lambda: world.told == ["prepare"])
        await world.until(lambda: len(world.api.written) > 2)
        assert not world.leadership.leads
        assert world.left == 0
        world.go_on.set()
        await world.until(lambda: world.leadership.leads)
        assert world.told == ["prepare", "begin"]
        assert world.left == 6
        spec = world.api.spec
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("me", 9, 0)
        assert spec["acquireTime"] == "1970-01-01T00:00:01.000000Z" < spec["renewTime"]

    play(scenario)


def test_it_stands_by_while_another_renews_and_takes_over_when_that_ends():
    async def scenario(world):
        for _ in range(5):
            world.now += 5
            world.api.hold("other")
            await world.rounds()
        assert world.told == []
        world.now += 8.9
        await world.rounds()
        assert world.api.written == []
        world.now += 0.2
        await world.until(lambda: world.leadership.leads)
        assert world.api.spec["leaseTransitions"] == 2
        assert world.told == ["prepare", "begin"]

    api = Api()
    api.hold("other")
    play(scenario, api)


def test_one_that_cannot_renew_the_lease_writes_nothing_after_the_deadline_and_begins_anew_when_it_can():
    async def scenario(world):
        await world.until(lambda: world.leadership.leads)
        world.api.failure = ConnectionLostError("reset")
        await world.rounds()
        world.now += 5.9
        assert world.leadership.leads
        world.now += 0.2
        assert world.left == 0
        assert not world.leadership.leads
        await world.until(lambda: world.told[2:] == ["cease"])
        assert "reset" in world.leadership.trouble
        world.api.failure = None
        await world.until(lambda: world.leadership.leads)
        assert world.told[3:] == ["prepare", "begin"]
        assert world.leadership.trouble == ""
        assert world.api.spec["leaseTransitions"] == 0

    play(scenario)


def test_when_another_holds_the_lease_it_stands_by():
    async def scenario(world):
        await world.until(lambda: world.leadership.leads)
        world.api.hold("other")
        await world.until(lambda: not world.leadership.leads)
        assert world.told == ["prepare", "begin", "cease"]
        assert world.leadership.trouble == "", "that is nothing to complain of"
        await world.rounds()
        assert world.api.spec["holderIdentity"] == "other"

    play(scenario)


def test_a_lease_that_is_lost_while_the_cluster_is_listed_is_not_led_by():
    async def scenario(world):
        world.go_on.clear()
        await world.until(lambda: world.told == ["prepare"])
        world.api.hold("other")
        await world.rounds()
        world.go_on.set()
        await world.rounds()
        assert world.told == ["prepare"]

    play(scenario)


def test_nothing_is_listed_before_its_own_earlier_writes_are_answered():
    async def scenario(world):
        await world.until(lambda: world.leadership.leads)
        world.is_idle = False
        world.now += 7
        await world.until(lambda: "cease" in world.told)
        await world.rounds()
        assert world.told == ["prepare", "begin", "cease"]
        world.is_idle = True
        await world.until(lambda: world.told[3:] == ["prepare", "begin"])

    play(scenario)


def test_one_that_resigns_gives_the_lease_back_when_its_writes_are_over():
    async def scenario(world):
        await world.until(lambda: world.leadership.leads)
        world.is_idle = False
        resigning = asyncio.create_task(world.leadership.resign())
        await world.until(lambda: world.told[-1] == "cease")
        assert world.left == 0
        await world.rounds()
        assert world.api.spec["holderIdentity"] == "me"
        world.is_idle = True
        await resigning
        assert world.api.spec["holderIdentity"] is None

    play(scenario)


def test_a_lease_is_not_given_back_while_a_write_may_still_take_effect(monkeypatch):
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.05)

    async def scenario(world):
        await world.until(lambda: world.leadership.leads)
        world.is_idle = False
        await world.leadership.resign()
        assert world.api.spec["holderIdentity"] == "me"

    play(scenario)


def test_one_that_stands_by_resigns_without_touching_the_lease():
    async def scenario(world):
        await world.rounds()
        await world.leadership.resign()
        assert world.api.spec["holderIdentity"] == "other"
        assert world.told == []

    api = Api()
    api.hold("other")
    play(scenario, api)


def test_without_an_election_it_leads_alone_and_asks_nobody():
    async def scenario(world):
        world.api.failure = AssertionError("nobody is to be asked")
        await world.until(lambda: world.leadership.leads)
        assert world.left > 1e9
        await world.leadership.resign()
        assert world.told == ["prepare", "begin", "cease"]
        assert not world.leadership.leads

    play(scenario, elected=False)


@pytest.mark.parametrize("elected", [True, False])
def test_one_that_is_not_ready_yet_resigns_at_once(elected):
    async def scenario(world):
        world.go_on.clear()
        await world.until(lambda: world.told == ["prepare"])
        async with asyncio.timeout(PATIENCE):
            await world.leadership.resign()
        assert world.told == ["prepare"]
        assert not elected or world.api.spec["holderIdentity"] is None

    play(scenario, elected=elected)


def test_what_is_not_allowed_is_said(caplog):
    async def scenario(world):
        world.api.failure = StatusError(403, "Forbidden", "no")
        await world.until(lambda: bool(world.leadership.trouble))
        await world.rounds()
        assert world.leadership.trouble == "the lease system/lease cannot be held or looked at: 403 Forbidden: no"
        assert world.told == []

    play(scenario)
    assert len([line for line in caplog.messages if "403" in line]) == 1


@pytest.mark.parametrize("elected", [True, False])
def test_a_mistake_in_taking_over_ends_the_process_instead_of_keeping_the_lease(elected):
    async def scenario(world):
        world.go_on = None
        await world.until(world.running.done)

    with pytest.raises(AttributeError):
        play(scenario, elected=elected)


def test_the_lease_is_renewed_while_a_cycle_takes_longer_than_it_lasts():
    async def scenario(world):
        await world.until(lambda: world.leadership.leads)
        renewals, limit = world.api.written, time.monotonic() + PATIENCE
        for _ in range(2 * DURATIONS.lease_duration):
            before = len(renewals)
            world.now += 1
            while len(renewals) == before:
                # The thread of the event loop is busy with a cycle; another one renews.
                assert time.monotonic() < limit
        assert world.leadership.leads
        await world.rounds()
        assert world.told == ["prepare", "begin"]

    play(scenario)


def test_a_thread_that_stands_is_not_alive():
    class Hanging(Api):
        hangs = stands = False

        async def _wait(self):
            while self.hangs:
                self.stands = True
                # Whatever it is that stops the whole thread.
                time.sleep(0.005)
            await super()._wait()

    async def scenario(world):
        await world.until(lambda: world.leadership.leads)
        assert world.leadership.alive() == ""
        world.api.hangs = True
        try:
            await world.until(lambda: world.api.stands)
            world.now += 26
            assert world.leadership.alive() == "", "it may be an API server that gives no answer"
            world.now += 2
            assert "stands for 28s" in world.leadership.alive()
        finally:
            world.api.hangs = False
        await world.until(lambda: not world.leadership.alive())

    play(scenario, Hanging())


def test_one_without_an_election_has_no_thread_that_could_stand():
    async def scenario(world):
        world.now += 1000
        assert world.leadership.alive() == ""

    play(scenario, elected=False)


# -- a look at the Lease ahead


def looking_ahead(api, meanwhile=lambda api: None):
    """When the Lease was looked at ahead, and since when nobody else can have led by what the leader knows."""
    found = []

    async def main():
        world = World(api)
        await world.elector.look(api)
        looked = time.monotonic()
        meanwhile(api)
        running = asyncio.create_task(world.leadership.run())
        try:
            await world.until(lambda: world.leadership.leads)
            found.extend((looked, world.leadership.sole_since))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    return found


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": "", "leaseTransitions": 3}])
def test_nobody_has_led_since_a_look_at_a_lease_that_was_free_and_is_unchanged(spec):
    looked, since = looking_ahead(Api(**spec))
    assert since <= looked


def test_somebody_may_have_led_since_a_look_at_a_lease_that_has_changed():
    def lead_and_resign(api):
        api.hold("other")
        api.hold("")

    looked, since = looking_ahead(Api(holderIdentity="", leaseTransitions=3), lead_and_resign)
    assert since > looked


def test_whoever_held_the_lease_at_the_look_may_have_led_since():
    api = Api()
    api.hold("other")
    looked, since = looking_ahead(api, lambda api: api.hold(""))
    assert since > looked
