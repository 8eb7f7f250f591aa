"""Tests that need more than Python run where it is; where it is not, the last lines of the run say so.

Examples are drawn in the same way in every run, so that a change lands or not for what it is. Who looks for more
(TONNAGE_EXAMPLES) gets others each time.
"""

import os
import shutil
import signal
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import system
from tests.cli import shells
from tests.e2e import lastversion
from tests.paths import KAI_CASES, OPENB, PEERS
from tests.release import imaging
from tonnage.lab import kubelet_node, parts

settings.register_profile("tonnage", derandomize="TONNAGE_EXAMPLES" not in os.environ, deadline=None)
settings.load_profile("tonnage")


def missing_parts() -> str | None:
    try:
        parts.find()
    except parts.PartsError as error:
        return str(error)
    return None


def missing_helm() -> str | None:
    try:
        parts.find(parts.CHART)
    except parts.PartsError as error:
        return str(error)
    return missing_parts()


def missing_kubectl() -> str | None:
    return None if shutil.which("kubectl") else "kubectl is not installed"


def missing_promtool() -> str | None:
    try:
        parts.find(parts.PROMTOOL)
    except parts.PartsError as error:
        return str(error)
    return None


def missing_history() -> str | None:
    return missing_parts() or lastversion.missing()


def missing_node() -> str | None:
    return missing_parts() or kubelet_node.missing()


def missing_cases() -> str | None:
    return None if KAI_CASES.is_file() else f"there is no file {KAI_CASES}"


def missing_traces() -> str | None:
    return None if OPENB.is_dir() else f"there is no folder {OPENB}"


def missing_programs() -> str | None:
    if not os.environ.get(PEERS):
        return f"{PEERS} names no folder with volcano/ and kai/ in it; `python -m peers.build` fills those"
    return missing_parts()


@dataclass(frozen=True)
class Need:
    """What the tests in a folder, or those with the marker of that name, cannot do without."""

    name: str
    missing: Callable[[], str | None]
    """Why they cannot run."""
    headline: str
    what: str
    is_slow: bool = False

    def concerns(self, item: pytest.Item) -> bool:
        return _folder(item.path) == self.name or item.get_closest_marker(self.name) is not None


HERE = Path(__file__).parent


@cache
def _folder(file: Path) -> str:
    """The folder of all tests that a file is in; thousands of tests ask."""
    return file.relative_to(HERE).parts[0]


LONG, EVERYTHING = "long", "TONNAGE_E2E"
"""The marker of tests that take minutes, and the variable that lets them run."""
NEEDS = (
    Need("e2e", missing_parts, "NOT TESTED ON KUBERNETES", "tests on real Kubernetes parts", is_slow=True),
    Need("helm", missing_helm, "NOT TESTED WITH HELM", "tests of the chart with Helm", is_slow=True),
    Need("kubectl", missing_kubectl, "NOT TESTED WITH KUBECTL", "tests of shown commands on a practice cluster", True),
    Need("promtool", missing_promtool, "ALERTS NOT EVALUATED", "tests of alerts with promtool"),
    Need("last_version", missing_history, "NOT TESTED BESIDE THE LAST VERSION", "tests beside the last version", True),
    Need("kubelet", missing_node, "NOT TESTED ON A KUBELET", "tests on a real kubelet", is_slow=True),
    Need("image", imaging.missing, "NOT TESTED AS AN IMAGE", "tests of the built image", is_slow=True),
    Need("browser", system.missing, "NOT TESTED IN A BROWSER", "tests of pages in a real browser", is_slow=True),
    Need("shells", shells.missing, "NOT TESTED IN ALL SHELLS", "tests of completion in zsh and fish"),
    Need("kai_cases", missing_cases, "NOT TESTED ON PEERS' CASES", "tests on KAI's own cases"),
    Need(
        "peer_programs", missing_programs, "NOT TESTED WITH PEERS' PROGRAMS", "tests with the peers' own programs", True
    ),
    Need("openb", missing_traces, "NOT TESTED ON RECORDED TRACES", "tests on the openb trace"),
)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A run in the background would hand this to every program that a test interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", f"{LONG}: tests that only `make e2e` runs")
    for need in NEEDS:
        config.addinivalue_line("markers", f"{need.name}: {need.what}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that start programs take longest and come first; those that take minutes are for `make e2e`."""
    if not os.environ.get(EVERYTHING):
        left = [item for item in items if item.get_closest_marker(LONG) is not None]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
    for need in NEEDS:
        concerned = [item for item in items if need.concerns(item)]
        reason = need.missing() if concerned else None
        if reason:
            for item in concerned:
                item.add_marker(pytest.mark.skip(reason=f"{need.what}: {reason.splitlines()[0]}"))
    items.sort(key=lambda item: not any(need.is_slow and need.concerns(item) for need in NEEDS))


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
