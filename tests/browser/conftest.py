"""Pages opened in a real browser, with everything noted that went wrong in it or that it asked the network for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import system


@dataclass
class Seen:
    """A page that is open, and what was noticed about it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def count(self, selector: str) -> int:
        """How many elements are on the page and visible."""
        return sum(element.is_visible() for element in self.page.locator(selector).all())

    def style(self, selector: str, name: str) -> str:
        script = "(element, name) => getComputedStyle(element).getPropertyValue(name)"
        found: str = self.page.locator(selector).first.evaluate(script, name)
        return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one file only, because as long as it is there other tests cannot run an event loop."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=system.find(), args=["--no-sandbox"])
        yield running
        running.close()


Opener = Callable[..., Seen]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens a page from a file; at the end nothing may have gone wrong and nothing may have been asked for."""
    all_seen: list[Seen] = []

    def open_page(html: str, width: int = 1400, scheme: str = "light", scripts: bool = True) -> Seen:
        file = tmp_path / f"page-{len(all_seen)}.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=scripts,
        )
        seen = Seen(context.new_page())
        all_seen.append(seen)
        seen.page.on("console", lambda message: seen.errors.append(message.text))
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(file.as_uri())
        return seen

    yield open_page
    for seen in all_seen:
        assert seen.errors == []
        own = (seen.page.url, "data:,")
        assert [url for url in seen.requests if url not in own] == []
        seen.page.context.close()
