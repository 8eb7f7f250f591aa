"""`--dashboard`, `/explain` and `/debug` of real servers on a real API server: live pages, and what tenants see."""

import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.addresses import ADDRESS, ELSEWHERE, status_of
from tests.e2e.batching import scheduling, wanted
from tests.e2e.certificates import trusting, web_files
from tests.e2e.extending import Command, extended
from tests.e2e.extending import wanted as extender_pod
from tests.e2e.viewers import LISTS_NODES, token_of
from tests.scenario import node, pod, running
from tests.waiting import PATIENCE, until
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports

SOON = PATIENCE * 1000


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield control_plane
    for path in (pods_path(), pods_path("team-b"), "/api/v1/nodes"):
        control_plane.api.delete(path)


@pytest.mark.browser
@pytest.mark.long
def test_a_browser_follows_the_dashboard_of_a_scheduler_at_work(plane: ControlPlane) -> None:
    from playwright.sync_api import expect, sync_playwright

    from tests.browser import system

    plane.api.create_nodes([node(name, gpus=2) for name in ("gpu-a", "gpu-b")])
    problems: list[str] = []
    with scheduling(plane, "--dashboard") as world, sync_playwright() as playwright:
        base = f"http://127.0.0.1:{world.scheduler.port}/dashboard"
        browser = playwright.chromium.launch(executable_path=system.find(), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        context.set_default_timeout(SOON)
        cluster, waiting, decisions = (context.new_page() for _ in range(3))
        for page, path in ((cluster, "/"), (waiting, "/waiting"), (decisions, "/decisions")):
            page.on("console", lambda message: problems.append(message.text))
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.goto(base + path)
        held = cluster.locator(".node[aria-label*='1.0 of 2 GPUs held']")
        expect(held).to_have_count(0)
        plane.api.create_pods([wanted("train", 1, memory=8000, cores=100), wanted("huge", 1, memory=10**6)])
        expect(held).to_have_count(1, timeout=SOON)
        expect(waiting.get_by_role("link", name="default/huge")).to_be_visible(timeout=SOON)
        row = decisions.locator("tbody tr", has_text="default/train").filter(has_text="placed")
        expect(row).to_be_visible(timeout=SOON)
        # The decision is the scheduler's own, so it has scores.
        row.locator("td a").first.click()
        expect(decisions.get_by_role("region", name="Scores of the best nodes")).to_be_visible()
        waiting.get_by_role("link", name="default/huge").click()
        waiting.get_by_role("link", name="Explain").click()
        expect(waiting.get_by_text("What would help", exact=True)).to_be_visible(timeout=SOON)
        expect(waiting.get_by_text("less memory on the card")).to_be_visible()
        plane.api.delete(f"{pods_path()}/train")
        expect(held).to_have_count(0, timeout=SOON)
        browser.close()
        world.check()
    assert problems == []


def test_an_extender_serves_its_dashboard_and_explanations_beside_its_metrics(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    (port,) = free_ports(1)

    def get(path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return str(error)  # the dashboard may not have looked since the node came

    with extended(plane, "--metrics-bind-address", f"127.0.0.1:{port}", "--dashboard") as world:
        plane.api.create_pods([extender_pod("runs", 1, memory=6000)])
        world.until_running("runs")
        plane.api.create_pods([extender_pod("waits", 1, memory=6000)])
        until(lambda: "default/runs" in get("/dashboard/nodes/a"), "the node does not show its pod")
        until(lambda: "default/waits" in get("/dashboard/waiting"), "the waiting pod is not shown")
        assert "default/runs" in get("/dashboard/decisions")
        found = json.loads(get("/explain/pod/waits"))
        assert found["misses"][0]["holders"][0]["pod"] == "default/runs"
        world.check()


class SecureScheduler(Command):
    """`tonnage scheduler` over HTTPS, at all addresses, for whom the API server lets look."""

    def __init__(self, plane: ControlPlane, web: Path, log: Path) -> None:
        (self.port,) = free_ports(1)
        command = [
            *(sys.executable, "-m", "tonnage.cli.main", "scheduler", "--kubeconfig", str(plane.kubeconfig())),
            *(f"--http-bind=:{self.port}", f"--cert-file={web / 'tls.crt'}", f"--key-file={web / 'tls.key'}"),
            *("--authorize-metrics", "--dashboard"),
        ]
        super().__init__(command, log, f"https://127.0.0.1:{self.port}", trusting(web))


Get = Callable[[str], tuple[int, str]]


def caller(port: int, tls: ssl.SSLContext, token: str) -> Get:
    """Somebody elsewhere with a token."""

    def get(path: str) -> tuple[int, str]:
        found: tuple[int, str] = status_of(
            f"https://{ADDRESS}:{port}{path}", tls, headers={"Authorization": f"Bearer {token}"}
        )
        return found

    return get


@ELSEWHERE
def test_the_api_server_decides_what_callers_of_a_scheduler_see(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": "team-b"}})
    plane.api.create_nodes([node("gpu-a", gpus=1)])
    plane.api.create_pods(
        [running("theirs", on="gpu-a", memory=5000, namespace="team-b"), wanted("mine", 1, memory=8000)]
    )
    plane.api.create_pods([pod("secret", 1, memory=8000, namespace="team-b", scheduler="tonnage")])
    urls = ["/dashboard", "/explain/*", "/debug/*"]
    tokens = {
        "operator": token_of(plane, "operator", [{"nonResourceURLs": urls, "verbs": ["get"]}]),
        "tenant": token_of(plane, "tenant", in_namespaces=["default"]),
        "neighbour": token_of(plane, "neighbour", [LISTS_NODES], ["default"]),
        "nobody": token_of(plane, "nobody"),
    }
    web = web_files(tmp_path)
    server = SecureScheduler(plane, web, tmp_path / "scheduler.log")
    try:
        tls = trusting(web)
        operator, tenant, neighbour, nobody = (caller(server.port, tls, tokens[name]) for name in tokens)
        until(lambda: "team-b/secret" in operator("/dashboard/waiting")[1], "the operator does not see all pods")
        assert "gpu-a" in operator("/dashboard/")[1]
        status, page = tenant("/dashboard/waiting")
        assert (status, "default/mine" in page, "secret" in page) == (200, True, False)
        status, page = tenant("/dashboard/")
        assert (status, "without nodes" in page, "gpu-a" in page) == (200, True, False)
        assert tenant("/dashboard/nodes/gpu-a")[0] == 403
        assert tenant("/dashboard/pods/team-b/secret")[0] == 404
        status, page = neighbour("/dashboard/nodes/gpu-a")
        assert (status, "another tenant" in page, "theirs" in page) == (200, True, False)

        status, text = operator("/explain/pod/mine")
        assert (status, "team-b/theirs" in text) == (200, True)
        for get, sees_nodes in ((tenant, False), (neighbour, True)):
            status, text = get("/explain/pod/mine")
            assert (status, "gpu-a" in text, "team-b" in text) == (200, sees_nodes, False)
            assert json.loads(text)["suggestions"][0]["kind"] == "request"
            assert get("/explain/pod/secret?namespace=team-b")[0] == 404
        assert tenant("/explain/node/gpu-a")[0] == 403

        kinds = lambda text: {(one["kind"], one["metadata"]["name"]) for one in json.loads(text)["items"]}  # noqa: E731
        seen = kinds(operator("/debug/snapshot")[1])
        assert {("Node", "gpu-a"), ("Pod", "secret"), ("Pod", "mine"), ("Namespace", "team-b")} <= seen
        assert kinds(tenant("/debug/snapshot")[1]) == {("Pod", "mine"), ("ConfigMap", "tonnage-snapshot")}
        assert kinds(neighbour("/debug/snapshot")[1]) >= {("Pod", "mine"), ("Node", "gpu-a")}
        assert [get("/debug/config")[0] for get in (operator, tenant, neighbour)] == [200, 403, 403]
        assert tenant("/debug/problems")[0] == 200

        for path in ("/dashboard/", "/explain/pod/mine", "/debug/snapshot", "/debug/problems"):
            assert nobody(path)[0] == 403
            assert caller(server.port, tls, "invented")(path)[0] == 401
            assert status_of(f"https://127.0.0.1:{server.port}{path}", tls)[0] == 200
        logged = server.log.read_text()
        assert not any(token in logged for token in tokens.values())
    finally:
        server.stop()
