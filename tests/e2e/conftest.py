"""Control planes for tests: one that is emptied after each module, and a fresh one for those that break things."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.sharedplane import SharedPlane
from tonnage.lab.control_plane import ControlPlane

SHARED = SharedPlane()


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    yield SHARED.get()
    SHARED.empty()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """It takes CPU time while it does nothing, so it ends with the tests that may need it."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        SHARED.stop()


@pytest.fixture
def fresh_control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """A socket that a module forgets to close fails that module's last test, not a later one's."""
    yield
    gc.collect()
