"""A few faults of the kinds that `make chaos ARGS="--server agent"` has; only `make e2e` runs them."""

from collections.abc import Iterator

import pytest

from tests.agent.nvml.fakelibrary import needs_cc
from tests.chaos.agent.arena import node_arena
from tests.chaos.agent.faults import KINDS
from tests.chaos.agent.run import node_run
from tests.chaos.run import Run

pytestmark = [pytest.mark.kubelet, pytest.mark.long, needs_cc]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with node_arena() as arena:
        made = node_run(arena, KINDS, 1, lambda line: None)
        made.begin()
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_fault_every_container_has_its_own_and_no_card_more_than_it_has(run: Run, kind: str) -> None:
    for _ in range(3):
        done = run.inject(kind)
        assert done.wrong == []
        if done.what:
            return
    pytest.fail("what the fault waits for did not come about")
