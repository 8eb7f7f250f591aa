"""Control planes for the benchmarks: a new one per measurement, or in a quick run one that is emptied in between."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane

NAMESPACE = "bench"


class ControlPlanes:
    """Control planes with no nodes and no pods."""

    def __init__(self, shared: ControlPlane | None) -> None:
        self._shared = shared

    @contextmanager
    def empty(self) -> Iterator[ControlPlane]:
        if self._shared is not None:
            yield self._shared
            _empty(self._shared)
            return
        with ControlPlane() as plane:
            _prepare(plane)
            yield plane


@contextmanager
def control_planes(quick: bool) -> Iterator[ControlPlanes]:
    """Starting a control plane takes longer than a quick measurement, so quick measurements share one."""
    with ExitStack() as stack:
        shared = stack.enter_context(ControlPlane()) if quick else None
        if shared is not None:
            _prepare(shared)
        yield ControlPlanes(shared)


def _prepare(plane: ControlPlane) -> None:
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})


def _empty(plane: ControlPlane) -> None:
    for path in (pods_path(), pods_path(NAMESPACE), "/api/v1/nodes"):
        plane.api.delete(path)
