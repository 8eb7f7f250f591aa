"""The comparison with HAMi on a real API server, with a copy of our extender as the other program."""

import sys

import pytest

from peers.hami.comparison import Comparison
from peers.hami.programs import ApiWorld, both
from peers.hami.report import EQUAL, HamiReport
from peers.hami.workload import Workload
from tonnage.lab.control_plane import ControlPlane

SEED = 3
PAUSE = 0.05
"""Seconds in which a watch shows a change; what seems to differ is looked at again after twenty times that."""


def compared(plane: ControlPlane, fault: str, pods: int, reviews: int) -> HamiReport:
    workload = Workload(SEED)
    world = ApiWorld(plane, PAUSE)
    world.prepare(workload)
    command = [sys.executable, "-m", "tests.peers.copy_of_ours", fault]
    with both(plane, world, workload, command) as (ours, theirs):
        names = [node["metadata"]["name"] for node in workload.nodes]
        comparison = Comparison(world, ours, theirs, names)
        comparison.review(workload.reviews(reviews))
        comparison.place(workload.cases(pods))
    return comparison.report()


@pytest.mark.parametrize(("fault", "reviews"), [("-", 20), ("card policies sort the wrong way round", 0)])
def test_a_second_program_is_compared(fresh_control_plane: ControlPlane, fault: str, reviews: int) -> None:
    report = compared(fresh_control_plane, fault, 20, reviews)
    if fault == "-":
        assert report.counts == {EQUAL: 20 + reviews}, "\n".join(report.lines())
    else:
        assert report.unexplained
