"""KAI's own cases of allocate in one queue whose share does not matter: the same pods start, on the same nodes."""

from typing import Any

import pytest

from tests.kai_cases import FILE, NON_PREEMPTIBLE, cluster_of, expected, gpus_of, plugins_of, read_cases, states
from tonnage.actions.catalog import make_actions
from tonnage.framework.session import Session
from tonnage.scheduler.cycle import run_cycle

ALIKE = {"Running": "Binding"}
"""A cycle that ends in `Running` is one in which the pod was bound."""

DIFFERENT = {
    "allocate.allocateFractionalGpu#11": "KAI waits for a part of a shared card although another card is free now",
    "allocate.allocateFractionalGpu#14": "KAI lets a pod wait beside one that waits although other cards are free now",
}
"""Cases whose outcome is another one here, and why: what can start now does not wait."""


def is_about_one_queue(case: dict[str, Any]) -> bool:
    """Whether a case needs no share to be looked at and no card that is cut in a way of KAI's own."""
    queues, jobs = case["queues"], case["jobs"]
    if case["run"] != "allocate" or len(queues) != 1 or "MaxAllowedGPUs" in queues[0]:
        return False
    fixed = sum(gpus_of(job) for job in jobs if job["Priority"] >= NON_PREEMPTIBLE)
    odd = any(task.get("IsLegacyMigTask") for job in jobs for task in job["Tasks"])
    return fixed <= queues[0].get("DeservedGPUs", 0) and not odd


CASES = [case for case in read_cases() if is_about_one_queue(case)]


@pytest.mark.skipif(not FILE.exists(), reason="KAI's cases are not at hand")
def test_there_are_such_cases():
    assert len(CASES) >= 20
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
