"""The documentation as a site: built without a warning, links that lead somewhere, nobody else asked, searchable."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import browser
from tests.pages import PAGES, named
from tests.paths import ROOT

__all__ = ["browser"]
_ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//")
_LOADED = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""")
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements for which a browser asks at once, and the attribute that says where."""


class SitePage(NamedTuple):
    """What a page of the site names."""

    anchors: set[str]
    links: list[str]
    loaded: list[str]


class Reader(HTMLParser):
    """Reads a page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.page = SitePage(set(), [], [])
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.page.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.page.links.append(values["href"])
        if LOADING.get(tag) in values:
            self.page.loaded.append(values[LOADING[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, in which a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "--keep-going", "-c", "docs"]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), ".", str(folder / "built")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "built"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, SitePage]:
    return {path: Reader(path.read_text()).page for path in site.rglob("*.html")}


def test_every_page_of_the_checkout_is_a_page_of_the_site(site: Path, pages: dict[Path, SitePage]) -> None:
    assert {site / Path(named(page)).with_suffix(".html") for page in PAGES} <= pages.keys()


def test_every_link_leads_to_a_page_and_to_a_heading_on_it(site: Path, pages: dict[Path, SitePage]) -> None:
    dead = []
    for path, page in pages.items():
        for target in [*page.links, *page.loaded]:
            if _ELSEWHERE.match(target) or target.startswith(("mailto:", "data:")):
                continue
            file, _, fragment = target.partition("#")
            linked = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            if not linked.exists() or (fragment and linked in pages and fragment not in pages[linked].anchors):
                dead.append(f"{path.relative_to(site)}: {target}")
    assert dead == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, SitePage]) -> None:
    loaded = [target for page in pages.values() for target in page.loaded]
    for style in site.rglob("*.css"):
        loaded += _LOADED.findall(style.read_text())
    assert loaded
    assert [target for target in loaded if _ELSEWHERE.match(target)] == []


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """The site, served on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.browser
def test_a_reader_finds_a_page_by_searching_and_the_browser_asks_nobody_else(browser: Browser, address: str) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_url("**/docs/README.html")
    page.locator("input[name=q]").first.fill("CardInsufficientMemory")
    page.keyboard.press("Enter")
    page.locator("#search-results a", has_text="Reasons").first.click()
    page.wait_for_url("**/docs/reasons.html**")
    assert page.locator("h1").inner_text().startswith("Reasons")
    assert page.locator(".sidebar-tree a", has_text="Queues").count()
    assert [url for url in asked if not url.startswith(address)] == []
    page.close()
