"""Tests that need more than Python run where it is; where it is not, the last lines of the run say so.

Examples are drawn in the same way in every run, so that a change lands or not for what it is. Who looks for more
(TONNAGE_EXAMPLES) gets others each time.
"""

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import system
from tonnage.lab import parts

settings.register_profile("tonnage", derandomize="TONNAGE_EXAMPLES" not in os.environ, deadline=None)
settings.load_profile("tonnage")


def missing_parts() -> str | None:
    try:
        parts.find()
    except parts.PartsError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class Need:
    """What the tests in a folder cannot do without."""

    folder: Path
    missing: Callable[[], str | None]
    """Why they cannot run."""
    headline: str
    what: str


HERE = Path(__file__).parent
NEEDS = (
    Need(HERE / "e2e", missing_parts, "NOT TESTED ON KUBERNETES", "tests on real Kubernetes parts"),
    Need(HERE / "browser", system.missing, "NOT TESTED IN A BROWSER", "tests of pages in a real browser"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs real parts takes longest and comes first."""
    for need in NEEDS:
        concerned = [item for item in items if need.folder in item.path.parents]
        reason = need.missing() if concerned else None
        if reason:
            for item in concerned:
                item.add_marker(pytest.mark.skip(reason=f"{need.what}: {reason.splitlines()[0]}"))
    items.sort(key=lambda item: not any(need.folder in item.path.parents for need in NEEDS))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    for need in NEEDS:
        number = sum(need.what in str(report.longrepr) for report in skipped)
        if number:
            reporter.write_sep("!", need.headline, red=True, bold=True)
            reporter.write_line(f"{number} {need.what} were skipped: {need.missing()}", red=True)
    return result
