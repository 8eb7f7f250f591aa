"""The dashboard as a reader sees it, in a real browser: every view, live, clean for axe-core, in all sizes."""

import re
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Seen
from tests.dashboard.asking import ScenarioSource
from tests.dashboard.serving import served
from tests.scenario import gpu, node, pod, running, scenario
from tonnage.dashboard.board import Board

EVIL = "<img src=x onerror=alert(1)>"
VIEWS = ("/", "/?colour=stranded", "/waiting", "/queues", "/decisions", "/trends", "/what-if")
DETAILS = (
    "/nodes/gpu-01",
    "/gpus/gpu-01/0",
    "/pods/default/train",
    "/pods/default/waits",
    "/queues/default",
    "/decisions/1",
    "/explain/pods/default/waits",
    "/nodes/none",
)
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")

SOON = 60_000
"""Milliseconds within which a change must be seen, on a busy machine too."""


class DrivenSource(ScenarioSource):
    """A cluster that the server's thread changes as the test says."""

    def __init__(self) -> None:
        labels = {"kai.scheduler/queue": "research"}
        super().__init__(
            scenario(
                *(node(f"gpu-{number:02d}", gpus=4) for number in range(1, 13)),
                node("sick", gpus=[gpu("sick/0", healthy=False), gpu("sick/1", index=1)]),
                node("cordoned", gpus=2, unschedulable=True),
                running("train", on="gpu-01", gpu=(0, 1), memory=8000, cores=100),
                running("serve", on="gpu-02", gpu=0, memory=7000, cores=30),
                pod("waits", 4, memory=9000, created="2026-09-21T13:00:00Z"),
                pod(f"odd-{EVIL}", 1, memory=9000, labels=labels),
            )
        )
        self.steps: list[Callable[[], None]] = []
        self.is_away = False

    def advance(self) -> None:
        while self.steps:
            self.steps.pop(0)()
        self.at += 10.0
        if not self.is_away:
            self.was_seen = self.at

    def do(self, step: Callable[[], None]) -> None:
        self.steps.append(step)


@pytest.fixture(scope="module")
def source() -> DrivenSource:
    return DrivenSource()


@pytest.fixture(scope="module")
def address(source: DrivenSource) -> Iterator[str]:
    with served(Board(source)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Opens a page of the dashboard; at the end nothing may have gone wrong and nobody else may have been asked."""
    seen: list[Seen] = []

    def open_page(path: str, width: int = 1400, scheme: Any = "light", scripts: bool = True) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        context.set_default_timeout(SOON)
        one = Seen(context.new_page())
        seen.append(one)
        one.page.on("console", lambda message: one.errors.append(message.text))
        one.page.on("pageerror", lambda error: one.errors.append(str(error)))
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.goto(address + path)
        return one.page

    yield open_page
    for one in seen:
        missing = [text for text in one.errors if "404 (Not Found)" not in text]
        assert missing == []
        assert [url for url in one.requests if not url.startswith((address, "data:,"))] == []
        one.page.context.close()


def faults(page: Page) -> list[tuple[str, str]]:
    """What axe-core has to say against a page."""
    page.evaluate(AXE)
    found = page.evaluate(
        "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
    )
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]


def checked(page: Page, address: str, paths: tuple[str, ...], width: int) -> None:
    """Go through pages, each of which must be clean for axe-core and no wider than the window."""
    for path in paths:
        page.goto(address + path)
        assert faults(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_every_view_is_clean_for_axe(visit: Callable[..., Page], address: str):
    checked(visit("/"), address, VIEWS, 1400)


def test_pages_about_one_thing_are_clean_for_axe_on_a_dark_telephone(visit: Callable[..., Page], address: str):
    checked(visit("/", 390, "dark"), address, DETAILS, 390)


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1400, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_clean_for_axe_in_all_sizes(visit: Callable[..., Page], address: str, scheme: str, width: int):
    checked(visit("/", width, scheme), address, (*VIEWS, *DETAILS), width)


def test_a_pod_that_comes_and_goes_is_seen_without_reloading(visit: Callable[..., Page], source: DrivenSource):
    page, waiting = visit("/"), visit("/waiting")
    tile = page.locator('[id="n-gpu-05"]')
    assert "0.0 of 4 GPUs held" in (tile.get_attribute("aria-label") or "")
    page.evaluate("window.stays = true")
    cluster = source.cluster
    source.do(lambda: cluster.upsert_pod(running("came", on="gpu-05", gpu=(0, 1, 2), memory=8000)))
    source.do(lambda: cluster.upsert_pod(pod("also-waits", 1, memory=9000, created="2026-09-21T13:00:00Z")))
    expect(tile).to_have_attribute("aria-label", "gpu-05, 4 × NVIDIA A100-SXM4-40GB, 3.0 of 4 GPUs held", timeout=SOON)
    expect(waiting.locator('[id="w-default/also-waits"]')).to_be_visible(timeout=SOON)
    source.do(lambda: cluster.remove_pod("default/came"))
    source.do(lambda: cluster.remove_pod("default/also-waits"))
    expect(tile).to_have_attribute("aria-label", "gpu-05, 4 × NVIDIA A100-SXM4-40GB, 0.0 of 4 GPUs held", timeout=SOON)
    expect(waiting.locator('[id="w-default/also-waits"]')).to_have_count(0, timeout=SOON)
    assert page.evaluate("window.stays")


def test_a_node_that_comes_is_shown_in_its_place_and_one_that_goes_is_not(
    visit: Callable[..., Page], source: DrivenSource
):
    page = visit("/")
    source.do(lambda: source.cluster.upsert_node(node("gpu-03a", gpus=2)))
    expect(page.locator('[id="n-gpu-03"] + [id="n-gpu-03a"]')).to_have_count(1, timeout=SOON)
    source.do(lambda: source.cluster.remove_node("gpu-03a"))
    expect(page.locator('[id="n-gpu-03a"]')).to_have_count(0, timeout=SOON)


def test_an_api_server_that_is_away_gives_the_page_another_face(visit: Callable[..., Page], source: DrivenSource):
    page = visit("/queues")
    status = page.locator("#status")
    expect(status).to_contain_text("Live", timeout=SOON)

    def leave() -> None:
        source.is_away, source.said = True, "connection refused"

    def come_back() -> None:
        source.is_away, source.said = False, ""

    source.do(leave)
    expect(status).to_contain_text("Picture of", timeout=SOON)
    expect(status).to_contain_text("connection refused")
    source.do(come_back)
    expect(status).to_contain_text("Live", timeout=SOON)


def test_names_with_markup_are_text_after_an_update_too(visit: Callable[..., Page], source: DrivenSource):
    page = visit("/waiting")
    row = page.get_by_role("link", name=f"odd-{EVIL}")
    expect(row).to_be_visible()
    source.do(lambda: source.cluster.upsert_pod(pod(f"late-{EVIL}", 1, memory=9000)))
    expect(page.get_by_role("link", name=f"late-{EVIL}")).to_be_visible(timeout=SOON)
    assert page.locator("img").count() == 0
    source.do(lambda: source.cluster.remove_pod(f"default/late-{EVIL}"))


def test_tables_sort_by_their_heads(visit: Callable[..., Page]):
    page = visit("/nodes/gpu-01")
    page.goto(page.url.replace("/nodes/gpu-01", "/queues"))
    names = lambda: [one.inner_text() for one in page.locator("#queues th a").all()]  # noqa: E731
    before = names()
    head = page.get_by_role("button", name="Queue")
    head.click()
    assert names() == sorted(before)
    head.click()
    assert names() == sorted(before, reverse=True)
    page.get_by_role("button", name="Holds").click()
    assert names()[0] == "default"


def test_keys_reach_nodes_and_arrows_walk_between_them(visit: Callable[..., Page]):
    page = visit("/")
    page.locator('[id="n-gpu-01"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "n-gpu-02"
    page.keyboard.press("Enter")
    page.wait_for_url("**/nodes/gpu-02")
    page.get_by_role("link", name="default/serve").first.click()
    page.wait_for_url("**/pods/default/serve")


def test_the_questions_of_the_cluster_view_are_in_its_address(visit: Callable[..., Page]):
    page = visit("/")
    page.get_by_role("radio", name="stranded").check(force=True)
    page.wait_for_url("**colour=stranded**")
    page.get_by_role("searchbox", name="Nodes").fill("sick")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=sick**")
    assert page.locator(".node").count() == 1


def test_colours_can_be_chosen_and_are_kept(visit: Callable[..., Page]):
    page = visit("/")
    colour = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("radio", name="Dark").check(force=True)
    dark = page.evaluate(colour)
    assert dark != light
    page.reload()
    assert page.evaluate(colour) == dark


def test_a_trial_shows_its_difference_and_the_page_stays_live(visit: Callable[..., Page]):
    page = visit("/what-if")
    page.get_by_label("Nodes to add").fill("2")
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_role("cell", name="+2 nodes")).to_be_visible(timeout=90_000)
    assert faults(page) == []


def test_plots_say_their_values_under_the_pointer_and_by_arrow_keys(visit: Callable[..., Page], source: DrivenSource):
    page = visit("/trends")
    figure = page.locator("#trend-waiting")
    plot, tip = figure.locator("svg.plot"), figure.locator(".tip")
    # The first plot comes with the second sample; a figure that is replaced is another element.
    expect(plot).to_be_visible(timeout=SOON)
    plot.hover(position={"x": 300, "y": 60})
    expect(tip).to_be_visible()
    expect(tip).to_have_text(re.compile(r"\d\d:\d\d:\d\d UTC\s*Waiting pods\s*2 pods"))
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    plot.focus()
    page.keyboard.press("ArrowRight")
    last = tip.locator("b").inner_text()
    page.keyboard.press("ArrowLeft")
    before = tip.locator("b").inner_text()
    assert before < last
    # The next sample makes the figure anew; the reader stays where it was.
    count = "() => JSON.parse(document.getElementById('values-waiting').textContent).at.length"
    known = page.evaluate(count)
    deadline = time.monotonic() + SOON / 1000
    while page.evaluate(count) <= known and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert page.evaluate(count) > known
    expect(tip.locator("b")).to_have_text(before)
    assert page.evaluate("document.activeElement.id") == "plot-waiting"
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    assert faults(page) == []


def test_values_that_were_opened_stay_open(visit: Callable[..., Page]):
    page = visit("/queues/default")
    expect(page.locator("#trend-held svg.plot")).to_be_visible(timeout=SOON)
    page.get_by_text("Values", exact=True).click()
    table = page.get_by_role("region", name="Values of GPUs held")
    expect(table).to_be_visible()
    newest = table.locator("tbody th").first
    before = newest.inner_text()
    expect(newest).not_to_have_text(before, timeout=SOON)
    expect(newest).to_be_visible()


def test_without_scripts_every_page_can_be_read(visit: Callable[..., Page], address: str):
    page = visit("/", scripts=False)
    for path in VIEWS:
        page.goto(address + path)
        assert page.locator("h1").is_visible()
    page.goto(f"{address}/waiting")
    assert page.get_by_role("link", name="default/waits").is_visible()
    assert "UTC" in page.locator("time").first.inner_text()


@pytest.mark.parametrize("width", [390, 2560])
def test_pages_fit_narrow_and_wide_windows_and_the_paper(visit: Callable[..., Page], address: str, width: int):
    page = visit("/", width, "dark")
    for path in VIEWS:
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.emulate_media(media="print", color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert background == "rgb(255, 255, 255)"


def test_churn_leaves_no_elements_behind(visit: Callable[..., Page], source: DrivenSource):
    page = visit("/decisions")
    tiles = visit("/")
    count = "() => document.querySelectorAll('*').length"
    before = tiles.evaluate(count)
    cluster = source.cluster
    for number in range(3):
        name = f"churn-{number}"
        source.do(lambda name=name: cluster.upsert_pod(running(name, on="gpu-07", gpu=0, memory=100)))
        expect(page.locator(f'tbody a[href$="/pods/default/{name}"]').first).to_be_visible(timeout=SOON)
        source.do(lambda name=name: cluster.remove_pod(f"default/{name}"))
    deadline = time.monotonic() + SOON / 1000
    while tiles.evaluate(count) != before and time.monotonic() < deadline:
        tiles.wait_for_timeout(200)
    assert tiles.evaluate(count) == before
