"""KAI's own cases of allocate: the same pods start, on the same nodes."""

from typing import Any

import pytest

from tests.kai_cases import FILE, cluster_of, expected, plugins_of, read_cases, states
from tonnage.actions.catalog import make_actions
from tonnage.framework.session import Session
from tonnage.scheduler.cycle import run_cycle

ALIKE = {"Running": "Binding"}
"""A cycle that ends in `Running` is one in which the pod was bound."""

DIFFERENT = {
    "allocate.allocateFractionalGpu#11": "KAI waits for a part of a shared card although another card is free now",
    "allocate.allocateFractionalGpu#14": "KAI lets a pod wait beside one that waits although other cards are free now",
    "allocate.allocateGpuMemory#6": "KAI counts MiB against the card of each node, here against the largest card",
}
"""Cases whose outcome is another one here, and why: something starts that waits there."""


def is_understood(case: dict[str, Any]) -> bool:
    """Whether a case is about allocate and needs no card that is cut in a way of KAI's own."""
    odd = any(task.get("IsLegacyMigTask") for job in case["jobs"] for task in job["Tasks"])
    return case["run"] == "allocate" and not odd


CASES = [case for case in read_cases() if is_understood(case)]


@pytest.mark.skipif(not FILE.exists(), reason="KAI's cases are not at hand")
def test_there_are_such_cases():
    assert len(CASES) >= 36
    assert sum(any(len(job["Tasks"]) > 1 for job in case["jobs"]) for case in CASES) >= 7


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_pods_stand_where_kai_has_them(case):
    with Session(cluster_of(case), plugins_of(case)) as session:
        run_cycle(session, make_actions())
        found = states(session, case)
    if case["id"] in DIFFERENT:
        assert "waiting" not in {decision.outcome for decision in session.decisions.values()}
        return
    for name, wanted in expected(case).items():
        state, on = found[name]
        assert ALIKE.get(state, state) == ALIKE.get(wanted["Status"], wanted["Status"]), name
        assert wanted.get("NodeName") in (None, on), name
