"""Taking over, stepping down and handing questions on, with an API server that the test plays."""

import asyncio
import json
import shutil
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests import virtualtime
from tests.server.listening import authority, needs_openssl, signed, until_listening
from tests.waiting import PATIENCE, until_true
from tonnage.extender import replicas as module
from tonnage.extender.forwarding import PEER_NAME, Forwarder, ForwardError, PeerTls
from tonnage.extender.replicas import NobodyLeadsError, Replicas, SchedulerLeaseConfig
from tonnage.kube.errors import StatusError
from tonnage.kube.leaderelection.callbacks import LeaderCallbacks
from tonnage.lab.program import free_ports
from tonnage.server import http as serving_module
from tonnage.server.callers import certificate_names
from tonnage.server.endpoint import Endpoint
from tonnage.server.http import serve

ROLE = "hami.io/scheduler-role"


class Api:
    """A Lease that is renewed whenever it is looked at, and the pods of two replicas."""

    def __init__(self, **roles):
        self.holder, self.transitions, self.renewed = "", 0, 0
        self.is_renewing = True
        self.roles = roles or {"a": "follower", "b": "follower"}
        self.addresses = dict.fromkeys(self.roles, "127.0.0.1")
        self.versions = Counter()
        self.patched = []
        self.on_patch = lambda name, role: None

    def give_to(self, host):
        self.holder, self.transitions = f"{host}_1" if host else "", self.transitions + 1

    async def get(self, path, query=None, timeout=0):
        await asyncio.sleep(0)
        if "/leases/" in path:
            assert path == "/apis/coordination.k8s.io/v1/namespaces/system/leases/lease"
            self.renewed += self.is_renewing
            spec = {"holderIdentity": self.holder, "leaseDurationSeconds": 1, "leaseTransitions": self.transitions}
            return json.dumps({"spec": {**spec, "renewTime": str(self.renewed)}}).encode()
        pods = {
            f"/api/v1/namespaces/here/pods/{name}": {
                "metadata": {"name": name, "labels": {ROLE: role}, "resourceVersion": str(self.versions[name])},
                "status": {"podIP": self.addresses[name]},
            }
            for name, role in self.roles.items()
        }
        if query:
            assert (path, query) == ("/api/v1/namespaces/here/pods", {"labelSelector": ROLE})
            return json.dumps({"items": list(pods.values())}).encode()
        if path not in pods:
            raise StatusError(404, "NotFound", "no such pod")
        return json.dumps(pods[path]).encode()

    async def request(self, method, path, *, body=None, type_="", timeout=0):
        name, role = path.rpartition("/")[2], body["metadata"]["labels"][ROLE]
        assert (method, path.rpartition("/")[0]) == ("PATCH", "/api/v1/namespaces/here/pods")
        if body["metadata"]["resourceVersion"] != str(self.versions[name]):
            raise StatusError(409, "Conflict", "the pod has changed")
        self.on_patch(name, role)
        self.versions[name] += 1
        self.patched.append((name, role))
        self.roles[name] = role
        return b"{}"


class World:
    """The replica `a`, whose clock goes on by so much at every look at it."""

    def __init__(self, api, tick=0.001, tls=None, pod="a"):
        self.api, self.now, self.tick = api, 0.0, tick
        self.prepared, self.begun, self.ceased, self.idle = 0, 0, 0, True
        self.go_on = asyncio.Event()
        self.go_on.set()
        election = SchedulerLeaseConfig(
            lease_namespace="system", lease_name="lease", host="a", pod_namespace="here", pod=pod, peer_tls=tls
        )
        callbacks = LeaderCallbacks(self.prepare, self.begin, self.cease, lambda: self.idle)
        self.replicas = Replicas(api, election, self.clock, callbacks)

    def clock(self):
        self.now += self.tick
        return self.now

    async def prepare(self):
        self.prepared += 1
        await self.go_on.wait()

    def begin(self):
        assert self.replicas.leads
        self.begun += 1

    def cease(self):
        self.ceased += 1

    async def until(self, true):
        await until_true(true)


def play(scenario, api=None, run=virtualtime.run, **more):
    async def main():
        world = World(api or Api(), **more)
        running = asyncio.create_task(world.replicas.run())
        try:
            await scenario(world)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return world

    return run(main())


def test_it_labels_its_pod_and_leads_when_its_kube_scheduler_holds_the_lease():
    async def scenario(world):
        await world.until(lambda: world.api.patched == [("a", "follower")])
        assert not world.replicas.leads
        # Others change the pod, too.
        world.api.versions["a"] += 1
        world.api.holder = "a_1"
        await world.until(lambda: world.replicas.leads)
        assert (world.prepared, world.begun) == (1, 1)
        assert world.api.roles == {"a": "leader", "b": "follower"}
        assert await world.replicas.answer_elsewhere("/filter", b"", was_forwarded=False) is None
        assert await world.replicas.answer_elsewhere("/filter", b"", was_forwarded=True) is None
        world.api.give_to("b")
        await world.until(lambda: world.api.roles["a"] == "follower")
        assert not world.replicas.leads

    play(scenario, Api(a="", b="follower"))


def test_nothing_is_decided_before_the_cluster_was_listed_and_questions_wait_for_that():
    async def scenario(world):
        world.go_on.clear()
        world.api.holder = "a_1"
        question = asyncio.create_task(world.replicas.answer_elsewhere("/filter", b"", was_forwarded=False))
        await world.until(lambda: world.prepared)
        await asyncio.sleep(0.3)
        assert not question.done()
        assert world.replicas.fence()[0] == 0
        world.go_on.set()
        assert await question is None
        assert world.replicas.leads

    play(scenario)


def test_one_that_led_before_and_says_that_it_is_done_is_not_waited_for():
    async def scenario(world):
        await world.until(lambda: world.api.renewed > 1)
        world.api.give_to("a")
        await world.until(lambda: world.replicas.leads)
        assert world.now < 0.6

    api = Api()
    api.holder = "b_1"
    play(scenario, api)


@pytest.mark.parametrize("roles", [{"a": "follower", "b": "leader"}, {"a": "follower", "c": "follower"}])
def test_one_that_led_before_and_does_not_say_so_is_waited_for(roles):
    async def scenario(world):
        await world.until(lambda: world.api.renewed > 1)
        world.api.give_to("a")
        await asyncio.sleep(0.3)
        assert world.prepared == 0
        world.tick = 0.02
        await world.until(lambda: world.replicas.leads)
        assert world.now > 0.6
        await world.until(lambda: "leader" not in [role for name, role in world.api.roles.items() if name != "a"])

    api = Api(**roles)
    api.holder = "b_1"
    play(scenario, api)


def test_one_that_starts_while_its_kube_scheduler_leads_waits_for_whoever_led_before():
    async def scenario(world):
        await asyncio.sleep(0.3)
        assert world.prepared == 0
        world.tick = 0.02
        await world.until(lambda: world.replicas.leads)
        assert world.now > 0.6

    api = Api()
    api.give_to("a")
    play(scenario, api)


def test_one_that_loses_the_lease_while_it_says_that_it_leads_does_not():
    async def scenario(world):
        def lost(name, role):
            if (name, role) == ("a", "leader"):
                world.api.give_to("b")

        world.api.on_patch = lost
        world.api.holder = "a_1"
        await world.until(lambda: ("a", "leader") in world.api.patched)
        while world.api.roles["a"] != "follower":
            assert not world.replicas.leads
            await asyncio.sleep(0.001)

    play(scenario)


def test_a_dead_leaders_label_is_not_taken_from_one_that_has_come_back():
    async def scenario(world):
        await world.until(lambda: world.api.renewed > 1)

        def comes_back(name, role):
            if (name, role) == ("a", "leader"):
                world.listed = False

        world.api.on_patch = comes_back
        listing = world.api.get

        async def get(path, query=None, timeout=0):
            answer = await listing(path, query, timeout)
            if query and not getattr(world, "listed", True):
                # Read, and then changed: the other one says that it follows, and then that it leads again.
                world.listed = True
                world.api.versions["b"] += 2
            return answer

        world.api.get = get
        world.api.give_to("a")
        world.tick = 0.02
        await world.until(lambda: world.replicas.leads)
        await asyncio.sleep(0.2)
        assert world.api.roles == {"a": "leader", "b": "leader"}

    api = Api(a="follower", b="leader")
    api.holder = "b_1"
    play(scenario, api)


def test_it_says_that_it_follows_only_when_all_it_wrote_was_answered():
    async def scenario(world):
        world.api.holder = "a_1"
        await world.until(lambda: world.replicas.leads)
        world.idle = False
        ceased = world.ceased
        world.api.give_to("b")
        await world.until(lambda: world.ceased > ceased)
        await asyncio.sleep(0.3)
        assert world.api.roles["a"] == "leader"
        world.idle = True
        await world.until(lambda: world.api.roles["a"] == "follower")

    play(scenario)


def test_one_that_ends_says_so_unless_something_it_wrote_is_unanswered():
    async def scenario(world):
        world.api.holder = "a_1"
        await world.until(lambda: world.replicas.leads)

    async def with_open_ends(world):
        await scenario(world)
        world.idle = False

    ended = play(scenario)
    assert ended.api.roles["a"] == "follower"
    assert not ended.replicas.leads
    ended = play(with_open_ends)
    assert ended.api.roles["a"] == "leader"
    assert not ended.replicas.leads


def test_without_renewal_it_stops_by_itself():
    async def scenario(world):
        world.api.holder = "a_1"
        await world.until(lambda: world.replicas.leads)
        world.api.is_renewing = False
        world.tick = 0.02
        await world.until(lambda: not world.replicas.leads)
        world.tick, world.api.is_renewing = 0.001, True
        await world.until(lambda: world.replicas.leads)
        assert world.prepared == 1, "nobody else can have led meanwhile"

    play(scenario)


def test_a_replica_outside_of_a_pod_leads_without_a_label():
    async def scenario(world):
        world.api.holder = "a_1"
        await world.until(lambda: world.replicas.leads)
        assert world.api.patched == []

    play(scenario, pod="elsewhere")


# -- questions


@pytest.mark.parametrize(
    ("holder", "words"), [("", "no kube-scheduler holds the lease system/lease"), ("a_1", "still taking over")]
)
def test_when_nobody_leads_the_answer_says_so(monkeypatch, holder, words):
    monkeypatch.setattr(module, "PATIENCE", 0.4)

    async def scenario(world):
        world.go_on.clear()
        world.api.holder = holder
        with pytest.raises(NobodyLeadsError, match=words):
            await world.replicas.answer_elsewhere("/filter", b"", was_forwarded=False)

    play(scenario)


@needs_openssl
def test_a_question_is_handed_on_once(tmp_path):
    asked = []

    async def answer(request):
        asked.append((request.url.path, await request.body(), certificate_names(request.scope)))
        return Response(b"yes", media_type="application/json")

    async def scenario(world):
        world.api.holder = "b_1"
        stop = asyncio.Event()
        app = Starlette(routes=[Route("/bind", answer, methods=["POST"])])
        serving = asyncio.create_task(serve([(app, peer_place(tls))], stop))
        await until_listening(tls.port)
        assert await world.replicas.answer_elsewhere("/bind", b"body", was_forwarded=False) == b"yes"
        assert asked == [("/bind", b"body", (PEER_NAME,))]
        assert world.replicas.forwarder.forwarded == 1
        with pytest.raises(NobodyLeadsError, match="leads no longer, b does"):
            await world.replicas.answer_elsewhere("/bind", b"body", was_forwarded=True)
        stop.set()
        await serving
        with pytest.raises(NobodyLeadsError, match="b leads and cannot be asked"):
            await world.replicas.answer_elsewhere("/bind", b"body", was_forwarded=False)

    authority(tmp_path)
    tls = peer_tls(signed(tmp_path / "a", tmp_path))
    play(scenario, run=asyncio.run, tls=tls)


def test_a_replica_without_certificates_for_the_others_says_what_is_missing():
    async def scenario(world):
        world.api.holder = "b_1"
        with pytest.raises(NobodyLeadsError, match=r"b leads and cannot be asked: .* without --peer-bind"):
            await world.replicas.answer_elsewhere("/bind", b"body", was_forwarded=False)

    play(scenario)


def test_a_leader_without_an_address_is_said():
    async def scenario(world):
        world.api.holder = "b_1"
        with pytest.raises(NobodyLeadsError, match=r"no pod with the label .* is called b"):
            await world.replicas.answer_elsewhere("/bind", b"", was_forwarded=False)

    api = Api()
    api.addresses["b"] = None
    play(scenario, api)


# -- certificates


def peer_tls(folder, port=0):
    files = (str(folder / name) for name in ("tls.crt", "tls.key", "ca.crt"))
    return PeerTls(**dict(zip(("certificate", "key", "authority"), files, strict=True)), port=port or free_ports(1)[0])


def peer_place(tls):
    return Endpoint("127.0.0.1", tls.port, tls.certificate, tls.key, tls.authority, needs_client_certificate=True)


@asynccontextmanager
async def leading(tls):
    """The port for peers of a replica that says yes to a bind."""

    async def answer(request):
        return PlainTextResponse("yes")

    stop = asyncio.Event()
    app = Starlette(routes=[Route("/bind", answer, methods=["POST"])])
    serving = asyncio.create_task(serve([(app, peer_place(tls))], stop))
    try:
        await until_listening(tls.port)
        yield
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def forwarder(tls):
    made = Forwarder(tls)
    try:
        yield made
    finally:
        await made.close()


@needs_openssl
def test_replicas_know_each_other_by_their_ca_and_name(tmp_path):
    async def refused(tls, words=None):
        async with forwarder(tls) as stranger:
            with pytest.raises(ForwardError, match=words):
                await stranger.ask("127.0.0.1", "/bind", b"")

    async def main():
        for name in ("ours", "theirs"):
            authority(tmp_path / name)
        tls = peer_tls(signed(tmp_path / "leader", tmp_path / "ours"))
        mixed = signed(tmp_path / "mixed", tmp_path / "theirs")
        shutil.copy(tmp_path / "ours" / "ca.crt", mixed / "ca.crt")
        async with leading(tls):
            async with forwarder(peer_tls(signed(tmp_path / "a", tmp_path / "ours"), tls.port)) as one:
                assert await one.ask("127.0.0.1", "/bind", b"") == b"yes"
                with pytest.raises(ForwardError, match="404"):
                    await one.ask("127.0.0.1", "/elsewhere", b"")
            await refused(peer_tls(signed(tmp_path / "b", tmp_path / "theirs"), tls.port), "certificate")
            # It trusts the leader, and the leader does not trust it.
            await refused(peer_tls(mixed, tls.port))
            server_only = signed(tmp_path / "c", tmp_path / "ours", usage="serverAuth")
            await refused(peer_tls(server_only, tls.port))
        other_name = peer_tls(signed(tmp_path / "d", tmp_path / "ours", name="another"))
        async with leading(other_name):
            await refused(peer_tls(tmp_path / "a", other_name.port), "certificate")

    asyncio.run(main())


@needs_openssl
def test_a_replica_uses_certificates_that_were_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(serving_module, "_RELOAD_SECONDS", 0.05)

    async def main():
        authority(tmp_path / "old")
        tls = peer_tls(signed(tmp_path / "a", tmp_path / "old"))
        async with leading(tls), forwarder(tls) as one:
            assert await one.ask("127.0.0.1", "/bind", b"") == b"yes"
            authority(tmp_path / "new")
            signed(tmp_path / "a", tmp_path / "new")
            async with forwarder(peer_tls(tmp_path / "a", tls.port)) as fresh:
                await until_answered(fresh)
            assert await one.ask("127.0.0.1", "/bind", b"") == b"yes"
            old = signed(tmp_path / "b", tmp_path / "old")
            shutil.copy(tmp_path / "new" / "ca.crt", old / "ca.crt")
            async with forwarder(peer_tls(old, tls.port)) as late:
                with pytest.raises(ForwardError):
                    await late.ask("127.0.0.1", "/bind", b"")

    asyncio.run(main())


async def until_answered(one):
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                assert await one.ask("127.0.0.1", "/bind", b"") == b"yes"
            except ForwardError:
                await asyncio.sleep(0.05)
            else:
                return
