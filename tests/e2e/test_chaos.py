"""A few faults of the kinds that `make chaos` has, on a small cluster."""

from collections.abc import Iterator

import pytest

from tests.chaos.arena import Arena, arena
from tests.chaos.faults import KINDS
from tests.chaos.run import Run, extender_run

DEEPEST = [
    "extender killed between filter and bind, the next one asked to bind",
    "extender killed after its Binding was applied, before the answer",
    "API server killed and started again",
    "watch connections deliver nothing for a while",
    "Bindings applied, their answers lost",
    "locks of a dead process on all nodes",
    "a pod deleted while its Binding is on the way, and created again",
]
"""The kinds that go deepest in the least time; the others are left to `make chaos`."""


@pytest.fixture(scope="module")
def small() -> Iterator[Arena]:
    with arena(nodes=4, cards=4) as made:
        yield made


@pytest.fixture(scope="module")
def run(small: Arena) -> Run:
    made = extender_run(small, KINDS, 1, lambda line: None)
    made.begin()
    return made


@pytest.mark.parametrize("kind", DEEPEST)
def test_after_a_fault_nothing_is_lost_and_nothing_over_committed(run: Run, kind: str) -> None:
    assert KINDS[kind]
    for _ in range(3):
        done = run.inject(kind)
        assert done.wrong == []
        if done.what:
            return
    pytest.fail("what the fault waits for did not come about")
