"""A few faults of the kinds that `make chaos ARGS="--server scheduler"` has, on a small cluster."""

from collections.abc import Iterator

import pytest

from tests.chaos.run import Run
from tests.chaos.scheduler.arena import yard
from tests.chaos.scheduler.faults import KINDS
from tests.chaos.scheduler.run import batch_run

DEEPEST = [
    "killed while a gang is bound, a Binding applied",
    "killed after its eviction was applied, before the answer",
    "a member deleted while its gang is bound",
]
"""The kinds that go deepest in the least time; the others are left to `make chaos`."""


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with yard(nodes=4, cards=4) as small:
        made = batch_run(small, KINDS, 1, lambda line: None)
        made.begin()
        yield made


@pytest.mark.parametrize("kind", DEEPEST)
def test_after_a_fault_gangs_are_whole_nothing_is_over_committed_and_nobody_went_in_vain(run: Run, kind: str) -> None:
    for _ in range(3):
        done = run.inject(kind)
        assert done.wrong == []
        if done.what:
            return
    pytest.fail("what the fault waits for did not come about")
