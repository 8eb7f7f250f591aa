"""Pages of the dashboard: what they say about a cluster, and what they never do."""

import json
import re

import pytest

from tests.dashboard.asking import NOW, Answer, Asked, ScenarioSource
from tests.scenario import gpu, node, pod, running, scenario
from tonnage.dashboard import app as module
from tonnage.dashboard.app import MOST_STREAMS, always
from tonnage.framework.decision import QueueFigures
from tonnage.server.viewer import Viewer

EVIL = '<script>alert(1)</script>"&'


@pytest.fixture
def asked() -> Asked:
    cluster = scenario(
        node("gpu-1", gpus=2),
        node("gpu-2", gpus=[gpu("sick", healthy=False)]),
        running("train", on="gpu-1", gpu=0, memory=6000, cores=50),
        pod("waits", 1, memory=9000, created="2026-09-21T13:00:00Z"),
    )
    return Asked(ScenarioSource(cluster))


def words(answer: Answer) -> str:
    """What a reader sees, tags and runs of blanks left out."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))


def test_the_cluster_page_shows_every_node_and_the_totals(asked: Asked):
    page = asked.get("/")
    assert page.status == 200
    assert 'id="n-gpu-1"' in page.text
    assert 'aria-label="gpu-1, 2 × NVIDIA A100-SXM4-40GB, 0.8 of 2 GPUs held' in page.text
    assert "1 stranded" in page.text
    assert "3 GPUs" in words(page) or "GPUs 3" in words(page)
    assert "1 pod" in words(page)


@pytest.mark.parametrize("colour", ["queue", "model", "free", "stranded", "health", "invented"])
def test_bars_have_a_colour_for_every_question(asked: Asked, colour: str):
    page = asked.get(f"/?colour={colour}&order=stranded&size=s")
    assert page.status == 200
    assert page.text.count("<svg viewBox=") >= 2
    assert 'fill="url(#hatch)"' in page.text


def test_nodes_can_be_searched_for(asked: Asked):
    assert 'id="n-gpu-2"' not in asked.get("/?q=gpu-1").text
    assert "Nothing matches “nowhere”" in words(asked.get("/?q=nowhere"))


def test_a_waiting_pod_is_under_its_reason_and_leads_to_its_record(asked: Asked):
    page = asked.get("/waiting")
    assert 'id="g-CardInsufficientMemory"' in page.text
    assert 'href="/pods/default/waits"' in page.text
    assert asked.get("/waiting?reason=CardInsufficientMemory").text.count("<tr id=") == 1
    assert "No pod waits." in words(asked.get("/waiting?reason=Other"))
    pod_page = words(asked.get("/pods/default/waits"))
    assert "0 of 2 nodes fit" in pod_page
    assert "CardInsufficientMemory" in pod_page
    assert "other pods leave" in pod_page


def test_a_placed_pod_names_its_node_and_devices(asked: Asked):
    page = words(asked.get("/pods/default/train"))
    assert "is on its node" in page
    assert "gpu-1/0" in page
    assert "6000 MiB" in page


def test_a_node_page_has_a_table_of_holders_for_each_card(asked: Asked):
    page = asked.get("/nodes/gpu-1")
    assert page.text.count('<article class="card"') == 2
    assert "default/train" in page.text
    assert "5.9 GiB" in words(page)
    assert "unhealthy" in words(asked.get("/nodes/gpu-2"))
    assert "On node gpu-1" in words(asked.get("/gpus/gpu-1/0"))


def test_queues_show_shares_where_a_plugin_keeps_them(asked: Asked):
    assert "no shares" in words(asked.get("/queues"))
    source = asked.source
    assert isinstance(source, ScenarioSource)
    source.shares = {"default": {"gpu": QueueFigures(0.5, 1.0, 0.8, 2.0)}}
    asked.board.look()
    page = words(asked.get("/queues"))
    assert "0.5 GPUs" in page
    assert "0.3 GPUs" in page
    assert "default" in words(asked.get("/queues/default"))


def test_decisions_can_be_filtered_and_opened(asked: Asked):
    cluster = asked.source.cluster
    cluster.upsert_pod(running("new", on="gpu-1", gpu=1, memory=100))
    asked.board.look()
    page = asked.get("/decisions")
    assert "default/new" in page.text
    assert "default/waits" in page.text
    assert "default/new" not in asked.get("/decisions?reason=CardInsufficientMemory").text
    assert "default/waits" not in asked.get("/decisions?node=gpu-1").text
    assert "No decision is shown." in words(asked.get("/decisions?pod=nobody"))
    number = re.findall(r'href="/decisions/(\d+)"', page.text)[0]
    assert "default/new" in asked.get(f"/decisions/{number}").text
    assert asked.get("/decisions/999999").status == 404


def test_trends_need_two_samples_and_then_draw(asked: Asked):
    assert "after two samples" in words(asked.get("/trends"))
    source = asked.source
    assert isinstance(source, ScenarioSource)
    for step in range(1, 4):
        source.at = NOW + 10 * step
        asked.board.look()
    page = asked.get("/trends?span=1h")
    assert page.text.count('class="plot"') == 5
    assert "style=" not in page.text


def test_what_does_not_exist_is_said_with_near_names(asked: Asked):
    for path, near in (
        ("/nodes/gpu-11", "gpu-1"),
        ("/pods/default/wait", "default/waits"),
        ("/pods/other/waits", "default/waits"),
        ("/gpus/gpu-1/7", "gpu-1/0"),
        ("/queues/defaults", "default"),
    ):
        page = asked.get(path)
        assert page.status == 404
        assert f">{near}</a>" in page.text
    assert asked.get("/nowhere").status == 404


def test_names_with_markup_are_shown_as_text():
    labels = {"kai.scheduler/queue": EVIL}
    cluster = scenario(
        node(f"n{EVIL}", gpus=[gpu(EVIL, type=EVIL)]),
        pod(f"p{EVIL}", 1, memory=9000, namespace=EVIL, labels=labels),
        pod("on", 1, on=f"n{EVIL}", labels=labels),
    )
    evil = Asked(ScenarioSource(cluster))
    paths = ["/", "/?colour=model", "/waiting", "/queues", "/decisions", "/what-if", f"/nodes/n{EVIL}", f"/gpus/{EVIL}"]
    for path in [
        *paths,
        f"/queues/{EVIL}",
        f"/pods/{EVIL}/p{EVIL}",
        f"/pods/{EVIL}",
        f"/?q={EVIL}",
        f"/decisions?pod={EVIL}",
    ]:
        page = evil.get(path)
        assert page.status in (200, 404), path
        assert "<script>" not in page.text, path
    assert "&lt;script&gt;" in evil.get("/waiting").text
    stream = evil.get(stream_of(evil.get("/waiting")).replace("stamp=1", "stamp=0")).text
    elements = json.loads(stream.removeprefix("data: "))["set"]
    assert elements
    assert [html for _, _, _, html in elements if "<script>" in html] == []


def stream_of(page: Answer) -> str:
    """The address of what changes on a page."""
    return re.findall(r'data-stream="([^"]*)"', page.text)[0].replace("&amp;", "&")


def test_pages_allow_a_browser_nothing_but_to_show_them(asked: Asked):
    page = asked.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page.text)
    assert re.findall(r'(?:src|href)="(https?:|//)', page.text) == []
    for name in ("dashboard.css", "dashboard.js"):
        address = re.findall(rf'"(/static/{name}[^"]*)"', page.text)[0]
        assert "immutable" in asked.get(address).headers["cache-control"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_pages_can_only_be_read(asked: Asked, method: str):
    assert asked.get("/", method).status == 405


def test_a_private_dashboard_answers_under_its_own_names_only():
    private = Asked(ScenarioSource(scenario(node("a"))), hosts=("localhost", "127.0.0.1", "[::1]"))
    assert [private.get("/", host=host).status for host in ("localhost:8090", "127.0.0.1:8090", "[::1]:8090")] == [
        200
    ] * 3
    assert private.get("/", host="evil.example:8090").status == 421


def test_an_old_view_says_so(asked: Asked):
    source = asked.source
    assert isinstance(source, ScenarioSource)
    source.said, source.was_seen = "connection refused", NOW - 120
    page = asked.get("/")
    assert "connection refused" in page.text
    assert f'data-seen="{NOW - 120:.3f}"' in page.text


def test_a_tenant_sees_its_own_pods_and_nobody_elses_names(asked: Asked):
    cluster = asked.source.cluster
    cluster.upsert_pod(pod("secret", 1, namespace="other", memory=9000))
    cluster.upsert_pod(pod("held", 1, namespace="other", on="gpu-1"))
    tenant = Asked(asked.source, always(Viewer(frozenset(("default",)))))
    for path in ("/", "/waiting", "/queues", "/decisions", "/nodes/gpu-1", "/trends", "/what-if?policy=fgd"):
        page = tenant.get(path)
        assert page.status == 200
        assert "secret" not in page.text
        assert "other/held" not in page.text
    assert tenant.get("/pods/other/secret").status == 404
    assert "default/waits" in tenant.get("/waiting").text


def test_without_the_right_to_list_nodes_only_pods_and_counts_are_shown(asked: Asked):
    tenant = Asked(asked.source, always(Viewer(frozenset(("default",)), sees_nodes=False)))
    page = tenant.get("/")
    assert "right to list nodes" in words(page)
    for path in ("/", "/waiting", "/pods/default/train", "/pods/default/waits", "/decisions"):
        assert "gpu-1" not in tenant.get(path).text, path
    assert [tenant.get(path).status for path in ("/nodes/gpu-1", "/gpus/sick", "/what-if")] == [403] * 3
    assert tenant.get("/stream?view=node&name=gpu-1&stamp=0").status == 403


def test_streams_are_limited_and_checked(asked: Asked):
    assert asked.get("/stream").status == 400
    assert asked.get("/stream?view=cluster&stamp=x").status == 400
    assert "event: reload" in asked.get("/stream?view=cluster&stamp=1&epoch=older").text
    asked.board.pages = MOST_STREAMS
    assert asked.get(stream_of(asked.get("/"))).status == 503


def test_a_page_that_is_opened_after_a_while_shows_the_cluster_as_it_is_now(asked: Asked):
    asked.source.cluster.upsert_pod(pod("came", 1, memory=9000))
    assert "default/came" not in asked.get("/waiting").text
    asked.clock += 2.0
    assert "default/came" in asked.get("/waiting").text


def test_a_page_whose_reader_has_lost_a_right_is_loaded_anew(asked: Asked, monkeypatch: pytest.MonkeyPatch):
    rights = [Viewer(), Viewer(), Viewer(frozenset(("default",)))]

    async def viewer_of(_: object) -> Viewer:
        return rights.pop(0)

    monkeypatch.setattr(module, "REVIEW_SECONDS", -1.0)
    losing = Asked(asked.source, viewer_of)
    assert "event: reload" in losing.get(stream_of(losing.get("/"))).text
