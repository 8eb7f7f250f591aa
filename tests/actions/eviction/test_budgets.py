"""Victims with PodDisruptionBudgets in view: those go that budgets let go, and others only where nothing else helps."""

from typing import Any

import pytest

from tests.actions.eviction.making_room import crowd, evicted, job, kai, moved, node, promised
from tests.plugins.queues.teams import team
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS
from tonnage.model.quota import PodDisruptionBudget
from tonnage.model.wire import convert

HIGH = 75
KEPT = {"each": [{"labels": {"app": "kept"}}]}


def with_budget(cluster: Cluster, allowed: int | None, *, disrupted: tuple[str, ...] = (), **spec: Any) -> Cluster:
    """A budget for the pods with the label `app: kept`."""
    status = {} if allowed is None else {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "")}
    given = {"metadata": {"name": "keep", "namespace": "default"}, "status": status}
    given["spec"] = {"selector": {"matchLabels": {"app": "kept"}}, **spec}
    HANDLERS[PodDisruptionBudget].put(cluster, convert(given, PodDisruptionBudget))
    return cluster


def three(*more: Any, waiting: int = 1) -> Cluster:
    """A node of three cards with one pod on each; by their age `c` would go first, and `a` last."""
    running = [job("a", "q", 1, on="n", created="2001"), job("b", "q", 1, on="n", created="2002", **KEPT)]
    running += [job("c", "q", 1, on="n", created="2003", **KEPT)]
    jobs = [job(f"high{number}", "q", 1, priority=HIGH) for number in range(waiting)]
    return crowd(node("n", 3), team("q", 3), *running, *jobs, *more)


def test_without_a_budget_the_youngest_go():
    assert evicted(kai(three(waiting=2), "preempt")) == ["b-0", "c-0"]


@pytest.mark.parametrize(("allowed", "gone"), [(0, ["a-0"]), (1, ["c-0"]), (2, ["c-0"])])
def test_a_pod_that_its_budget_protects_stays_while_another_can_go(allowed, gone):
    assert evicted(kai(with_budget(three(), allowed), "preempt")) == gone


@pytest.mark.parametrize(("allowed", "gone"), [(0, ["a-0", "c-0"]), (1, ["a-0", "c-0"]), (2, ["b-0", "c-0"])])
def test_what_goes_for_one_job_counts_for_the_next_and_budgets_are_broken_only_if_nothing_else_helps(allowed, gone):
    assert evicted(kai(with_budget(three(waiting=2), allowed), "preempt")) == gone


def test_the_pods_of_one_plan_count_together():
    cluster = three(job("gang", "q", 1, pods=2, priority=HIGH), waiting=0)
    outcome = kai(with_budget(cluster, 1), "preempt")
    assert (evicted(outcome), len(promised(outcome))) == (["a-0", "c-0"], 2)


def test_a_node_without_protected_pods_is_taken_even_if_its_pods_come_later():
    jobs = [job("kept", "q", 2, on="n0", created="2003", **KEPT), job("old", "q", 2, on="n1", created="2001")]
    cluster = crowd(node("n0", 2), node("n1", 2), team("q", 4), *jobs, job("high", "q", 2, priority=HIGH))
    outcome = kai(with_budget(cluster, 0), "preempt")
    assert (evicted(outcome), promised(outcome)) == (["old-0"], {"high-0": "n1"})


def test_of_a_gang_whose_surplus_is_protected_nothing_goes_while_another_can():
    each = [{"labels": {"app": "kept"}}, {"labels": {"app": "kept"}}, {}]
    running = [job("gang", "q", 1, pods=3, minimum=1, on="n", created="2003", each=each), job("old", "q", 1, on="n")]
    cluster = crowd(node("n", 4), team("q", 4), *running, job("high", "q", 2, priority=HIGH))
    assert evicted(kai(with_budget(cluster, 0), "preempt")) == ["gang-2", "old-0"]


def test_pods_that_the_budget_counts_as_disrupted_already_or_that_do_not_run_yet_may_go():
    assert evicted(kai(with_budget(three(), 0, disrupted=("c-0",)), "preempt")) == ["c-0"]
    starting = {"each": [{"labels": {"app": "kept"}, "phase": "Pending"}]}
    cluster = crowd(node("n", 1), team("q", 1), job("c", "q", 1, on="n", **starting), job("high", "q", priority=HIGH))
    assert evicted(kai(with_budget(cluster, 0), "preempt")) == ["c-0"]


@pytest.mark.parametrize(
    ("spec", "gone"),
    [
        ({"minAvailable": 1}, ["c-0"]),
        ({"minAvailable": 2}, ["a-0"]),
        ({"minAvailable": "51%"}, ["a-0"]),
        ({"minAvailable": "50%"}, ["c-0"]),
        ({"maxUnavailable": 0}, ["a-0"]),
        ({"maxUnavailable": "10%"}, ["c-0"]),
        ({}, ["c-0"]),
    ],
)
def test_a_budget_without_a_status_as_in_a_manifest_is_counted(spec, gone):
    assert evicted(kai(with_budget(three(), None, **spec), "preempt")) == gone


def test_a_budget_whose_selector_cannot_be_read_protects_nobody():
    selector = {"matchExpressions": [{"key": "app", "operator": "Odd"}]}
    assert evicted(kai(with_budget(three(), 0, selector=selector), "preempt")) == ["c-0"]
    assert evicted(kai(with_budget(three(), 0, selector=None), "preempt")) == ["c-0"]


def test_reclaim_takes_back_and_consolidation_moves_whom_budgets_let_go():
    running = [job("a", "x", 1, on="n", created="2001"), job("c", "x", 1, on="n", created="2003", **KEPT)]
    cluster = crowd(node("n", 2), team("x", 0), team("y", 1), *running, job("new", "y", 1))
    assert evicted(kai(with_budget(cluster, 0), "reclaim")) == ["a-0"]
    places = [job("a", "q", 1, on="n0", created="2001"), job("c", "q", 1, on="n1", created="2003", **KEPT)]
    cluster = crowd(node("n0", 2), node("n1", 2), team("q", 4), *places, job("large", "q", 2))
    assert moved(kai(with_budget(cluster, 0), "consolidation")) == {"a-0": "n1"}


def test_a_budget_that_is_gone_protects_nobody():
    cluster = with_budget(three(), 0)
    HANDLERS[PodDisruptionBudget].drop(cluster, "default/keep", None)
    assert evicted(kai(cluster, "preempt")) == ["c-0"]
