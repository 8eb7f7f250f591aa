"""Who may look at the dashboard of a server: loopback peers, whoever may look at /debug, and tenants at their own."""

import asyncio
import json

from tests.dashboard.asking import Asked, ScenarioSource
from tests.scenario import node, pod, running, scenario
from tonnage.dashboard.access import viewer_of_server
from tonnage.server.authorization import TOKEN_REVIEWS, Authorizer

USERS = {"admin": "admin", "tenant": "tenant", "watcher": "watcher", "nobody": "nobody"}
RIGHTS = {
    "admin": {("get", "/dashboard")},
    "tenant": {("list", "pods", "default")},
    "watcher": {("list", "nodes", ""), ("list", "pods", "")},
    "nobody": set(),
}


class Api:
    """Knows some users and their rights."""

    async def request(self, method, path, *, body, timeout):
        spec = body["spec"]
        if path == TOKEN_REVIEWS:
            user = USERS.get(spec["token"])
            return json.dumps({"status": {"authenticated": bool(user), "user": {"username": user or ""}}}).encode()
        if "nonResourceAttributes" in spec:
            asked = (spec["nonResourceAttributes"]["verb"], spec["nonResourceAttributes"]["path"])
        else:
            about = spec["resourceAttributes"]
            asked = (about["verb"], about["resource"], about["namespace"])
        return json.dumps({"status": {"allowed": asked in RIGHTS[spec["user"]]}}).encode()


def dashboard(authorizer=None) -> Asked:
    cluster = scenario(
        node("gpu-1", gpus=2),
        running("mine", on="gpu-1", memory=100),
        pod("theirs", 1, namespace="other", memory=9000),
    )
    namespaces = lambda: {key.partition("/")[0] for key in cluster.pods()}  # noqa: E731
    return Asked(ScenarioSource(cluster), viewer_of_server(authorizer, namespaces))


def test_without_an_authorizer_only_loopback_peers_may_look():
    asked = dashboard()
    assert asked.get("/").status == 200
    refused = asked.get("/", client="10.0.0.9", authorization="Bearer admin")
    assert refused.status == 403
    assert "--authorize-metrics" in refused.text
    assert asked.get("/stream?view=cluster&stamp=0", client="10.0.0.9").status == 403


def test_loopback_peers_are_answered_under_names_of_this_host_only():
    asked = dashboard()
    assert [asked.get("/", host=host).status for host in ("localhost:8080", "127.0.0.1", "[::1]:8080")] == [200] * 3
    assert asked.get("/", host="evil.example:8080").status == 421
    assert asked.get("/stream?view=cluster&stamp=0", host="evil.example").status == 421


def test_the_api_server_says_who_sees_what():
    async def scene() -> None:
        asked = dashboard(Authorizer(Api()))

        async def get(path: str, token: str):
            return await asked.ask(path, client="10.0.0.9", authorization=f"Bearer {token}")

        assert "gpu-1" in (await get("/", "admin")).text
        assert "other/theirs" in (await get("/waiting", "admin")).text
        own = (await get("/", "tenant")).text
        assert "gpu-1" not in own
        assert "namespace default, without nodes" in own
        assert "theirs" not in (await get("/waiting", "tenant")).text
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
