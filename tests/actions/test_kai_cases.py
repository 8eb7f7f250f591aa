"""KAI's own cases, one action or whole cycles: the same pods run, wait, go and move, on the same nodes."""

import pytest

from tests.kai_cases import cluster_of, on_cases, plugins_of, read_cases
from tests.kai_outcomes import cards_of_nodes, expected, figures, settle, shared_cards, states, statuses
from tonnage.actions.catalog import make_actions
from tonnage.actions.eviction.stalegangeviction import StaleGangEviction
from tonnage.framework.action import Action
from tonnage.framework.cycle import run_cycle
from tonnage.framework.session import Session

CYCLE = ["allocate", "consolidation", "reclaim", "preempt"]
ROUNDS, STABLE_ROUNDS = 2, 5
"""A case of whole cycles has come to its end after so many, and stays there for so many more."""
ALIKE = {"Running": "Binding"}
"""One action that ends in `Running` is one in which the pod was bound."""

DIFFERENT = {
    "allocate.allocateFractionalGpu#11": "KAI waits for a part of a shared card although another card is free now",
    "allocate.allocateFractionalGpu#14": "KAI lets a pod wait beside one that waits although other cards are free now",
    "allocate.allocateFractionalGpu#19": "spreading takes an idle card first, as KAI's own scores say",
    "allocate.allocateGpuMemory#6": "KAI counts MiB against the card of each node, here against the largest card",
    "allocate.allocateMIG#3": "KAI closes a node for an old annotation, which any tenant may write onto a running pod",
    "allocate.allocateMIG#4": "the annotation by which pods asked for MIG instances before KAI means nothing here",
}
"""Cases whose outcome is another one here, and why."""

CASES = read_cases()
OF_ONE_ACTION = [case for case in CASES if case["run"] != "cycle"]
OF_CYCLES = [case for case in CASES if case["run"] == "cycle"]


@pytest.mark.kai_cases
def test_few_cases_differ():
    assert len(OF_ONE_ACTION) >= 100
    assert len(OF_CYCLES) >= 50
    assert DIFFERENT.keys() <= {case["id"] for case in CASES}
    assert len(DIFFERENT) <= len(CASES) / 10


@on_cases(OF_ONE_ACTION, at_least=100)
def test_pods_stand_where_kai_has_them(case):
    with Session(cluster_of(case), plugins_of(case)) as session:
        run_cycle(session, make_actions([case["run"]]))
        found = states(session, case)
        pairs = shared_cards(session.cluster, case)
    right = all(
        (ALIKE.get(found[name][0], found[name][0]) == ALIKE.get(wanted["Status"], wanted["Status"]))
        and wanted.get("NodeName") in (None, "", found[name][1])
        for name, wanted in expected(case).items()
    )
    right = right and all(in_case == here for _, _, in_case, here in pairs)
    assert right != (case["id"] in DIFFERENT), (found, pairs)


@on_cases(OF_CYCLES, at_least=50)
def test_cycles_come_to_the_same_end_and_stay_there(case):
    cluster = cluster_of(case)
    actions: list[Action] = [*make_actions(CYCLE), StaleGangEviction(grace=0)]
    history, plugins = [], plugins_of(case)
    for _ in range(ROUNDS + STABLE_ROUNDS):
        with Session(cluster, plugins) as session:
            run_cycle(session, actions)
            settle(session, case)
        history.append(statuses(cluster, case))
    found = history[ROUNDS - 1]
    right = all(
        found[name][0] == wanted["Status"] and wanted.get("NodeName") in (None, "", found[name][1])
        for name, wanted in expected(case).items()
    )
    is_stable = all(status == found for status in history[ROUNDS:])
    assert (right and is_stable) != (case["id"] in DIFFERENT), found
    if "expect_nodes" in case:
        assert cards_of_nodes(cluster) == case["expect_nodes"]


@on_cases(CASES, at_least=150)
def test_pods_ask_for_what_the_case_says(case):
    asked = figures(case)
    for name, wanted in {**case.get("expect_jobs", {}), **case.get("expect_tasks", {})}.items():
        for figure, value in asked.get(name, {}).items():
            # Where a case expects 0 it does not say.
            assert not wanted.get(figure) or value == pytest.approx(wanted[figure]), (name, figure)
