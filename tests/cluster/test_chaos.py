"""A few faults of the kinds that `make chaos` has, and a short soak, on a small cluster."""

import os
from collections.abc import Iterator

import pytest

from tests.chaos.arena import Arena, arena
from tests.chaos.faults import KINDS
from tests.chaos.run import Run
from tests.chaos.soak import Soak

pytestmark = pytest.mark.skipif(
    not os.environ.get("TONNAGE_CHAOS"), reason="takes a minute; TONNAGE_CHAOS=1 runs it, and `make chaos` many more"
)

OFTEN = [
    "extender killed before filter's answer",
    "extender killed between filter and bind, the next one asked to bind",
    "extender killed after its Binding was applied, before the answer",
    "extender paused",
    "extender's clock jumps",
    "API server killed and started again",
    "watch connections cut",
    "watch connections deliver nothing for a while",
    "API server answers 500",
    "Bindings refused with 409",
    "Bindings applied, their answers lost",
    "locks of a dead process on all nodes",
    "a node's registration is garbage for a while",
    "a node deleted in the middle of a bind to it",
    "a pod deleted while its Binding is on the way, and created again",
]
"""The kinds that go deepest; the others are left to `make chaos`."""


@pytest.fixture(scope="module")
def small() -> Iterator[Arena]:
    with arena(nodes=4, cards=4) as made:
        yield made


@pytest.fixture(scope="module")
def run(small: Arena) -> Run:
    made = Run(small, 1, lambda line: None)
    made.begin()
    return made


@pytest.mark.parametrize("kind", OFTEN)
def test_after_a_fault_nothing_is_lost_and_nothing_over_committed(run: Run, kind: str) -> None:
    assert KINDS[kind]
    done = run.inject(kind)
    assert done.wrong == []
    assert done.what, "what the fault waits for did not come about"


def test_pods_come_and_go_and_nothing_is_found(small: Arena, run: Run) -> None:
    soak = Soak(small, 2)
    soak.traffic = run.traffic
    soak.rest = run.rest
    soak.run(3.0, 6)
    assert soak.wrong == []
    assert sum(sample.placed for sample in soak.samples) > 0
    assert small.player.mixed_up == []
