"""Who sees what of a server: loopback peers and operators everything, tenants what the API server lets them list."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tests.dashboard.asking import NOW, Asked, ScenarioSource
from tests.scenario import node, pod, running, scenario
from tests.server.reviewing import RIGHTS, ReviewingApi
from tonnage.cluster.cluster import Cluster
from tonnage.model.group import VolcanoQueue
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import ResourceQuota
from tonnage.plugins.defaults import default_plugins
from tonnage.server import access as module
from tonnage.server.access import CallerAccess
from tonnage.server.authorization import Authorizer
from tonnage.server.explaining import explain_route
from tonnage.server.explanations import ScheduledCluster
from tonnage.server.viewer import Viewer


def world() -> Cluster:
    return scenario(
        node("gpu-1", gpus=2),
        running("mine", on="gpu-1", gpu=0, memory=5000),
        running("theirs", on="gpu-1", gpu=1, memory=7000, namespace="other"),
        pod("waits", 1, memory=6000),
        pod("wants", 1, memory=9000, namespace="other"),
    )


def dashboard(cluster: Cluster, authorizer: Authorizer | None = None) -> Asked:
    return Asked(ScenarioSource(cluster), CallerAccess(authorizer, lambda: cluster).viewer_of("/dashboard"))


def request(token: str, path: str = "/debug/snapshot") -> Request:
    return Request(
        {
            "type": "http", "method": "GET", "path": path, "query_string": b"", "client": ("10.0.0.9", 1),
            "headers": [(b"authorization", f"Bearer {token}".encode())], "server": ("a", 80), "scheme": "http",
        }
    )  # fmt: skip


def test_without_an_authorizer_only_loopback_peers_may_look():
    asked = dashboard(world())
    assert asked.get("/").status == 200
    refused = asked.get("/", client="10.0.0.9", authorization="Bearer admin")
    assert refused.status == 403
    assert "--authorize-metrics" in refused.text
    assert asked.get("/stream?view=cluster&stamp=0", client="10.0.0.9").status == 403


def test_loopback_peers_are_answered_under_names_of_this_host_only():
    asked = dashboard(world())
    assert [asked.get("/", host=host).status for host in ("localhost:8080", "127.0.0.1", "[::1]:8080")] == [200] * 3
    assert asked.get("/", host="evil.example:8080").status == 421
    assert asked.get("/stream?view=cluster&stamp=0", host="evil.example").status == 421


def test_the_api_server_says_who_sees_what():
    async def scene() -> None:
        asked = dashboard(world(), Authorizer(ReviewingApi()))

        async def get(path: str, token: str):
            return await asked.ask(path, client="10.0.0.9", authorization=f"Bearer {token}")

        assert "gpu-1" in (await get("/", "admin")).text
        assert "other/wants" in (await get("/waiting", "admin")).text
        own = (await get("/", "tenant")).text
        assert "gpu-1" not in own
        assert "namespace default, without nodes" in own
        assert "wants" not in (await get("/waiting", "tenant")).text
        assert (await get("/pods/default/mine", "tenant")).status == 200
        assert (await get("/pods/other/theirs", "tenant")).status == 404
        assert (await get("/nodes/gpu-1", "tenant")).status == 403
        assert "gpu-1" in (await get("/", "watcher")).text
        refused = await get("/", "nobody")
        assert refused.status == 403
        assert "nonResourceURLs" in refused.text
        unknown = await get("/", "invented")
        assert (unknown.status, unknown.headers["www-authenticate"]) == (401, "Bearer")

    asyncio.run(scene())


def test_queues_are_shown_to_whoever_may_list_the_kinds_that_there_are():
    cluster = world()
    cluster.groups.upsert(VolcanoQueue(metadata=ObjectMeta(name="secret-project")))
    may = ("list", "queues.scheduling.volcano.sh", "")
    api = ReviewingApi({"tenant": RIGHTS["watcher"], "manager": RIGHTS["watcher"] | {may}})

    async def scene() -> None:
        asked = dashboard(cluster, Authorizer(api))

        async def get(path: str, token: str):
            return await asked.ask(path, client="10.0.0.9", authorization=f"Bearer {token}")

        for path in ("/queues", "/queues/secret-project", "/queues/secret-projekt"):
            refused = await get(path, "tenant")
            assert refused.status == 403
            assert "right to list queues" in refused.text
            assert "secret-project<" not in refused.text
        assert "secret-project" not in (await get("/", "tenant")).text
        assert "secret-project" in (await get("/queues", "manager")).text

    asyncio.run(scene())


def test_who_it_is_is_asked_once_and_each_right_once_in_ten_seconds():
    api, now = ReviewingApi(), [0.0]
    cluster = world()
    viewer_of = CallerAccess(Authorizer(api, lambda: now[0]), lambda: cluster, lambda: now[0]).viewer_of()

    async def scene() -> None:
        for _ in range(3):
            assert await viewer_of(request("tenant")) == Viewer(frozenset(("default",)), sees_nodes=False)
        asked = ["token", "get /debug/snapshot", "list nodes ", "list pods ", "list pods default", "list pods other"]
        assert api.asked == asked
        now[0] += 10.0
        await viewer_of(request("tenant"))
        assert api.asked == asked * 2

    asyncio.run(scene())


def test_rights_that_cannot_be_reviewed_are_no_rights_that_are_missing():
    """A tenant is told to try again, not that it has no pods."""
    api = ReviewingApi()
    cluster = world()
    viewer_of = CallerAccess(Authorizer(api), lambda: cluster).viewer_of()

    async def scene() -> None:
        api.down = {"pods"}
        answer = await viewer_of(request("tenant"))
        assert isinstance(answer, Response)
        assert answer.status_code == 503
        api.down = set()
        assert isinstance(await viewer_of(request("tenant")), Viewer)

    asyncio.run(scene())


def test_namespaces_are_asked_about_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(module, "MOST_NAMESPACES", 5)
    cluster = scenario(*(pod("p", 1, namespace=f"n{number}") for number in range(20)))
    api = ReviewingApi({"tenant": {("list", "pods", "n0")}})

    async def scene() -> None:
        viewer_of = CallerAccess(Authorizer(api), lambda: cluster).viewer_of()
        assert await viewer_of(request("tenant")) == Viewer(frozenset(("n0",)), sees_nodes=False)
        assert sum(one.startswith("list pods n") for one in api.asked) == 5

    asyncio.run(scene())


def test_objects_are_shown_kind_by_kind():
    cluster = world()
    quotas = [ResourceQuota(metadata=ObjectMeta(name="q", namespace=name)) for name in ("default", "other")]
    things: list[Any] = [*quotas, cluster.nodes["gpu-1"].node, *(task.pod for task in cluster.waiting.values())]
    rights = {"tenant": RIGHTS["tenant"] | {("list", "resourcequotas", "")}, "neighbour": RIGHTS["neighbour"]}

    async def scene() -> None:
        access = CallerAccess(Authorizer(ReviewingApi(rights)), lambda: cluster)

        async def seen(token: str) -> list[str]:
            viewer = await access.viewer_of()(request(token))
            assert isinstance(viewer, Viewer)
            found = await access.visible(request(token), viewer, things)
            assert isinstance(found, list)
            return [one.metadata.key for one in found]

        assert await seen("tenant") == ["default/q", "other/q", "default/waits"]
        assert await seen("neighbour") == ["default/gpu-1", "default/waits"]

    asyncio.run(scene())


# -- explanations


Get = Callable[[str, str], Awaitable[tuple[int, str]]]


def explained(scene: Callable[[Get], Awaitable[None]]) -> None:
    """A scene with a function that asks a server for an explanation as somebody."""

    async def main() -> None:
        cluster, ready = world(), asyncio.Event()
        ready.set()
        scheduled = ScheduledCluster(cluster, default_plugins(), ["allocate"], NOW)
        access = CallerAccess(Authorizer(ReviewingApi()), lambda: cluster)
        route = explain_route(ready, lambda: scheduled, access.viewer_of())

        async def get(name: str, token: str) -> tuple[int, str]:
            asked = request(token, f"/explain/{name}")
            _, child = route.matches({**asked.scope, "type": "http"})
            asked.scope.update(child)
            answer = await route.endpoint(asked)
            return answer.status_code, bytes(answer.body).decode()

        await scene(get)

    asyncio.run(main())


def test_a_tenant_has_its_own_pods_explained_without_names_of_others():
    async def scene(get: Get) -> None:
        status, text = await get("pod/waits", "tenant")
        assert status == 200
        found = json.loads(text)
        assert found["sentence"] == "waits: 0 of 1 nodes fit: 1 CardInsufficientMemory"
        assert found["funnel"][0]["reason"] == "CardInsufficientMemory"
        assert [one["kind"] for one in found["suggestions"]] == ["request"]
        for secret in ("gpu-1", "theirs", "wants", "other", "GPU-"):
            assert secret not in text, secret
        status, text = await get("pod/mine", "tenant")
        assert (status, json.loads(text)["sentence"]) == (200, "runs")
        assert "gpu-1" not in json.dumps({**json.loads(text), "devices": []})

    explained(scene)


def test_with_the_right_to_list_nodes_they_are_named_and_their_other_pods_are_not():
    async def scene(get: Get) -> None:
        found = json.loads((await get("pod/waits", "neighbour"))[1])
        assert found["misses"][0]["node"] == "gpu-1"
        assert "theirs" not in json.dumps(found)
        found = json.loads((await get("node/gpu-1", "neighbour"))[1])
        assert [one["pod"] for one in found["holders"]] == ["another tenant", "default/mine"]
        assert (await get("node/gpu-1", "tenant")) == (403, "the API server does not let this user list nodes")

    explained(scene)


def test_a_pod_of_others_and_one_that_does_not_exist_are_the_same():
    async def scene(get: Get) -> None:
        hidden, none = await get("pod/other/theirs", "tenant"), await get("pod/other/nobody", "tenant")
        assert hidden == (404, "there is no pod other/theirs that this user may see")
        assert none == (404, "there is no pod other/nobody that this user may see")
        near = await get("pod/wait", "tenant")
        assert near == (404, "there is no pod wait that this user may see; did you mean default/waits?")
        assert (await get("pod/want", "tenant"))[1].endswith("did you mean default/waits?")

    explained(scene)
