"""Real nodes for tests: one that the tests of a module share."""

from collections.abc import Iterator

import pytest

from tests.e2e.kubelet.realnode import GpuNode
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.kubelet_node import KubeletNode


@pytest.fixture(scope="module")
def shared_node() -> Iterator[GpuNode]:
    with ControlPlane() as plane, KubeletNode(plane) as node:
        yield GpuNode(plane, node)


@pytest.fixture
def node(shared_node: GpuNode) -> Iterator[GpuNode]:
    """The module's node, without pods."""
    yield shared_node
    shared_node.clear()
