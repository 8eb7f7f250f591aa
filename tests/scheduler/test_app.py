"""The batch scheduler's routes: who is shown what, one snapshot at a time, and probes."""

import asyncio
import json
from types import SimpleNamespace
from unittest.mock import Mock

from tests.scenario import node, pod
from tests.server.reviewing import ReviewingApi
from tests.server.strangers import LOOPBACK, STRANGER, asked, connected, head, serving
from tonnage.actions.catalog import make_actions
from tonnage.devices.catalog import default_vendors
from tonnage.kube.kinds import NODES, PODS
from tonnage.kube.watch import Backoff
from tonnage.model.problem import Problem
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler import app as module
from tonnage.scheduler.app import app, health_of
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.service import SchedulerService
from tonnage.server.authorization import Authorizer
from tonnage.server.health import SILENT_SECONDS

DEBUG = ("/debug/snapshot", "/debug/config", "/debug/problems", "/explain/node/a")


RIGHTS = {
    "good": {("get", path) for path in (*DEBUG, "/metrics")},
    "bad": set(),
    "tenant": {("list", "pods", "default")},
}


def play(scene, authorizer=None):
    async def main():
        metrics = SchedulerMetrics()
        service = SchedulerService(
            Mock(),
            default_vendors(),
            default_plugins(),
            make_actions(["allocate"]),
            Backoff(draw=lambda: 0.5),
            metrics,
            "default-scheduler",
        )
        NODES.handler.put(service.cluster, node("a", gpus=1))
        service.ready.set()
        force = SimpleNamespace(
            text="actions: [allocate]", plugins=default_plugins(), actions=make_actions(["allocate"])
        )
        reloader = SimpleNamespace(in_force=force)
        async with serving(app(service, metrics, reloader, health_of(service), authorizer)) as port:
            await scene(port, service)

    asyncio.run(main())


def test_debugging_is_for_loopback_peers_and_metrics_and_probes_are_for_everybody():
    async def scene(port, service):
        for path in DEBUG:
            refused = await asked(port, head(path, X_Forwarded_For=LOOPBACK))
            assert b" 403 " in refused
            assert b"--authorize-metrics" in refused
            assert b" 200 " in await asked(port, head(path), LOOPBACK)
            assert b" 405 " in await asked(port, head(path, "POST", Content_Length=0), LOOPBACK)
        for path in ("/metrics", "/healthz", "/livez", "/readyz"):
            assert b" 200 " in await asked(port, head(path), STRANGER)

    play(scene)


def test_with_an_authorizer_both_are_for_whom_the_api_server_lets():
    async def scene(port, service):
        for path in (*DEBUG, "/metrics"):
            assert b" 403 " in await asked(port, head(path, Authorization="Bearer bad"))
            assert b" 200 " in await asked(port, head(path, Authorization="Bearer good"))
        assert b" 200 " in await asked(port, head("/healthz"))

    play(scene, Authorizer(ReviewingApi(RIGHTS)))


def test_a_tenant_sees_its_own_pods_and_what_is_wrong_with_them():
    async def scene(port, service):
        for name, namespace in (("mine", "default"), ("theirs", "other")):
            PODS.handler.put(service.cluster, pod(name, 1, namespace=namespace, memory=100))
        faults = [Problem(name, "spec", "", "", "odd") for name in ("Pod/default/mine", "Pod/other/theirs", "Node/a")]
        service.problems.all = lambda: faults

        async def get(path):
            answer = await asked(port, head(path, Authorization="Bearer tenant"))
            return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2].decode()

        peer = await connected(port)
        peer.send(head("/debug/snapshot", Authorization="Bearer tenant", Connection="close"))
        snapshot = (await peer.rest()).decode()
        peer.close()
        assert '"name":"mine"' in snapshot
        assert "theirs" not in snapshot
        assert '"kind":"Node"' not in snapshot
        assert "config.yaml" not in snapshot
        status, text = await get("/debug/problems")
        assert (status, [one["object"] for one in json.loads(text)]) == (200, ["Pod/default/mine"])
        assert (await get("/debug/config"))[0] == 403
        assert (await get("/explain/pod/mine"))[0] == 200
        assert (await get("/explain/node/a"))[0] == 403

    play(scene, Authorizer(ReviewingApi(RIGHTS)))


def test_loopback_peers_are_answered_under_names_of_this_host_only():
    async def scene(port, service):
        for path in DEBUG:
            asking = head(path).replace(b"Host: localhost", b"Host: evil.example")
            assert b" 421 " in await asked(port, asking, LOOPBACK)

    play(scene)


def test_snapshots_are_made_one_at_a_time(monkeypatch):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def written(_):
        begun.set()
        yield b"["
        await go_on.wait()
        yield b"]"

    monkeypatch.setattr(module, "written", written)

    async def scene(port, service):
        first = asyncio.create_task(asked(port, head("/debug/snapshot"), LOOPBACK))
        await begun.wait()
        assert b" 429 " in await asked(port, head("/debug/snapshot"), LOOPBACK)
        go_on.set()
        assert b" 200 " in await first

        async def is_free():
            return b" 200 " in await asked(port, head("/debug/snapshot"), LOOPBACK)

        while not await is_free():
            await asyncio.sleep(0.01)

    play(scene)


def test_probes_tell_of_a_silent_watch_and_of_a_lease_thread_that_stands(monkeypatch):
    async def scene(port, service):
        pods = service.informer.reflectors["Pod"]
        pods.lists = 1
        assert (await asked(port, head("/readyz"))).endswith(b"ok")
        pods.heard -= SILENT_SECONDS + 1
        unready = await asked(port, head("/readyz"))
        assert b" 503 " in unready
        assert b"\r\n\r\nPod: nothing was heard" in unready
        assert (await asked(port, head("/livez"))).endswith(b"ok")
        monkeypatch.setattr(service.leadership, "_elector", SimpleNamespace(alive=lambda: "it stands"))
        for path in ("/livez", "/healthz"):
            dead = await asked(port, head(path))
            assert b" 503 " in dead
            assert dead.endswith(b"it stands")

    play(scene)


def test_a_waiting_pod_is_explained_on_a_copy_and_unknown_names_are_answered_with_the_nearest():
    async def scene(port, service):
        PODS.handler.put(service.cluster, pod("train-0", 1, memory=9000, scheduler="default-scheduler"))
        answer = await asked(port, head("/explain/pod/train-0?namespace=default"), LOOPBACK)
        assert b" 200 " in answer
        assert b"it fits with less memory on the card" in answer
        assert list(service.cluster.waiting) == ["default/train-0"]
        unknown = await asked(port, head("/explain/pod/train-1"), LOOPBACK)
        assert b" 404 " in unknown
        assert b"did you mean default/train-0?" in unknown
        for path in ("/explain/planet/mars", f"/explain/pod/{'x' * 700}"):
            assert b" 400 " in await asked(port, head(path), LOOPBACK)
        service.ready.clear()
        assert b" 503 " in await asked(port, head("/explain/pod/train-0"), LOOPBACK)

    play(scene)
