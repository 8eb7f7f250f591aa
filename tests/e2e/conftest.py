"""Control planes for tests: one that all tests of a module share, and a fresh one for those that break things."""

import gc
from collections.abc import Iterator

import pytest

from tonnage.lab.control_plane import ControlPlane


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def fresh_control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """A socket that a module forgets to close fails that module's last test, not a later one's."""
    yield
    gc.collect()
