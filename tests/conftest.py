"""Tests on real Kubernetes parts run where the parts are; where they are not, the last lines of the run say so."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tonnage.lab import parts

CLUSTER = Path(__file__).with_name("cluster")
_SKIPPED = pytest.StashKey[tuple[int, str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    concerned = [item for item in items if CLUSTER in item.path.parents]
    if not concerned:
        return
    try:
        parts.find()
    except parts.PartsError as error:
        reason = str(error)
        config.stash[_SKIPPED] = len(concerned), reason
        for item in concerned:
            item.add_marker(pytest.mark.skip(reason=reason.splitlines()[0]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    result = yield
    skipped = session.config.stash.get(_SKIPPED, None)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if skipped and reporter:
        count, reason = skipped
        reporter.write_sep("!", "NOT TESTED ON KUBERNETES", red=True, bold=True)
        reporter.write_line(f"{count} tests on real Kubernetes parts were skipped: {reason}", red=True)
    return result
