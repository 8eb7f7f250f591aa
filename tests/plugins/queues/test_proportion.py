"""Queues get their share while pods are placed: KAI's rules and Volcano's, by the kind of the queues."""

import random

import pytest

from tests.groups import add, cycle, group, kai_group, kai_queue, member, queue
from tests.plugins.queues.teams import job, shares, small, team, volcano
from tests.scenario import node, part, plain, pod, scenario
from tonnage.cluster.jobs.group import KAI_GROUP
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.selection import Taint
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.queues.proportion import Proportion


def proportion(*switched_off: str) -> Plugin:
    return Proportion().with_options(switched_off=frozenset(switched_off))


# -- KAI


def test_kai_10_parts_of_cards_of_a_gang_beyond_the_limit_wait():
    pods = [part(f"p-{n}", 0.5, annotations={KAI_GROUP: "gang"}) for n in range(3)]
    cluster = add(scenario(plain("n0", 4, gpu_memory=100), *pods), team("q", 1, 1), kai_group("gang", 3, queue="q"))
    outcome = cycle(cluster, Proportion())
    assert not outcome.placed
    assert "queue q holds 1 gpu and may hold 1; the job asks for 0.5" in outcome.decisions["p-2"].rejected[0].message
    assert shares(outcome, "q", "gpu") == ("1", "1", "0", "0")


@pytest.mark.parametrize("weight", [0, 1])
def test_kai_12_the_queue_that_holds_less_starts_and_then_they_take_turns(weight):
    cluster = scenario(plain("n0", 2), plain("n1", 2), job("runs", "q0", on="n0"))
    add(cluster, team("q0", 1, weight=weight, created="1"), team("q1", 1, weight=weight, created="2"))
    for one in (job("a", "q0"), *(job(f"b-{n}", "q1") for n in range(3))):
        cluster.upsert_pod(one)
    outcome = cycle(cluster, Proportion())
    assert outcome.placed == {"b-0": "n0", "a": "n1", "b-1": "n1"}
    assert outcome.order[:3] == ["b-0", "a", "b-1"]


def test_kai_13_of_two_that_both_fill_their_quota_the_one_that_holds_nothing_yet_runs():
    cluster = scenario(plain("n0", 4), job("runs", "q0", 2, on="n0"), job("a", "q0"), job("b", "q1", 2))
    outcome = cycle(add(cluster, team("q0", 3, created="1"), team("q1", 2, created="2")), Proportion())
    assert outcome.placed == {"b": "n0"}


def test_the_next_job_counts_when_queues_are_compared():
    """Both hold nothing; with its job the older queue would exceed its quota, the younger would not."""
    cluster = scenario(plain("n0", 4), job("large", "old", 3), job("small", "young", 2))
    outcome = cycle(add(cluster, team("old", 2, created="1"), team("young", 2, created="2")), Proportion())
    assert outcome.placed == {"small": "n0"}


def test_departments_are_compared_before_their_teams():
    cluster = scenario(plain("n0", 4), job("runs", "a1", 2, on="n0"))
    add(cluster, team("a", 2, created="1"), team("b", 2, created="2"))
    add(cluster, team("a1", 2, parentQueue="a"), team("a2", 2, parentQueue="a"), team("b1", 1, parentQueue="b"))
    for one in (job("from-a2", "a2", 2), job("b1-0", "b1"), job("b1-1", "b1")):
        cluster.upsert_pod(one)
    outcome = cycle(cluster, Proportion())
    assert outcome.placed == {"b1-0": "n0", "b1-1": "n0"}
    assert shares(outcome, "a", "gpu") == ("2", "2", "2", "0")
    assert shares(outcome, "b1", "gpu") == ("1", "2", "2", "1")


def test_a_limit_holds_for_all_teams_of_a_department_together():
    cluster = scenario(plain("n0", 4), job("one", "a1", 1, created="1"), job("two", "a2", 2, created="2"))
    add(cluster, team("a", 4, 2), team("a1", 4, parentQueue="a"), team("a2", 4, parentQueue="a"))
    outcome = cycle(cluster, Proportion())
    assert outcome.placed == {"one": "n0"}
    assert outcome.why("two") == "QueueOverLimit: queue a holds 1 gpu and may hold 2; the job asks for 2"


def test_jobs_that_must_not_be_stopped_stay_within_the_quota():
    cluster = scenario(plain("n0", 4), job("fixed", "q", 2, priority=100), job("train", "q", 2, priority=50))
    outcome = cycle(add(cluster, team("q", 1)), Proportion())
    assert outcome.placed == {"train": "n0"}
    assert outcome.why("fixed").startswith("NonPreemptibleOverQuota: jobs of queue q that must not be stopped hold 0")
    assert shares(outcome, "q", "gpu") == ("1", "4", "2", "1")


def test_pods_without_a_queue_need_no_quota_among_queues_of_kai():
    cluster = scenario(plain("n0", 1), pod("system", 1, priority=2_000_000_000))
    assert cycle(add(cluster, team("q", 1)), Proportion()).placed == {"system": "n0"}


def test_of_both_kinds_kais_rules_count():
    cluster = scenario(plain("n0", 2), job("a", "kai"), job("b", "volcano"))
    outcome = cycle(add(cluster, team("kai", 1), queue("volcano")), Proportion())
    assert set(outcome.placed) == {"a", "b"}
    assert shares(outcome, "volcano", "gpu") == ("0", "1", "1", "1")


# -- Volcano


def test_volcano_5_one_pod_of_each_of_two_queues():
    pods = [small(f"{name}-p-{n}", name, 1, 1) for name in ("q1", "q2") for n in (1, 2)]
    outcome = cycle(volcano(node("n1", cpu="2", memory="4G"), *pods, q1={}, q2={}), Proportion())
    assert outcome.placed == {"q1-p-1": "n1", "q2-p-1": "n1"}
    assert outcome.why("q1-p-2").startswith("QueueBeyondDeserved: queue q1 holds 1 cpu and deserves 1; the pod asks")


def test_volcano_7_the_smaller_share_is_served_first():
    pods = [small("runs", "q1", 1, 1, on="n"), small("a", "q1", 2, 2), small("b", "q2", 3, 2)]
    cluster = volcano(node("n", cpu="5", memory="5G"), *pods, q1={}, q2={})
    assert cycle(cluster, proportion("allocatable")).placed == {"b": "n"}


def test_volcano_8_shares_are_looked_at_anew_after_each_job():
    pods = [small("runs", "q1", 1, 1, on="n"), small("a", "q1", 2, 2)]
    pods += [small("b", "q2", 2, 2), small("c", "q2", 1, 1)]
    cluster = volcano(node("n", cpu="5", memory="5G"), *pods, q1={}, q2={})
    assert cycle(cluster, proportion("allocatable")).placed == {"a": "n", "b": "n"}


@pytest.mark.parametrize(("most", "placed"), [("2", {"p": "n1"}), ("1500m", {})])
def test_volcano_28_a_capability_that_the_pod_just_fills_and_one_that_it_exceeds(most, placed):
    pods = [small("runs", "q", 1, 1, on="n1"), small("p", "q", 1, 1, selector={"name": "n1"})]
    nodes = [node(name, cpu="2", memory="4G", labels={"name": name}) for name in ("n1", "n2")]
    assert cycle(volcano(*nodes, *pods, q={"capability": {"cpu": most, "memory": "2G"}}), Proportion()).placed == placed


@pytest.mark.parametrize(
    ("wanted", "state", "placed"),
    [
        (small("p", "q1", cpu=1), "Open", {"p": "n1"}),
        (small("p", "q2", memory=1), "Open", {"p": "n2"}),
        (small("p", "q1", 1, 1), "Open", {}),
        (small("p", "q1", cpu=1), "Closed", {}),
    ],
)
def test_volcano_32_only_what_a_pod_asks_for_is_compared(wanted, state, placed):
    cluster = scenario(node("n1", cpu="2", memory="2G"), node("n2", cpu="2", memory="2G"))
    for name, most in (("q1", 2), ("q2", 3)):
        add(cluster, queue(name, capability={"cpu": most, "memory": f"{most}G"}, state=state), group(name, queue=name))
    for one in (small("a", "q1", 1, 2, on="n1"), small("b", "q2", 2, 1, on="n2"), wanted):
        cluster.upsert_pod(one)
    outcome = cycle(cluster, Proportion())
    assert outcome.placed == placed
    if state == "Closed":
        assert "QueueClosed" in outcome.why("p")


def test_a_queue_that_holds_its_share_is_passed_over_and_best_effort_pods_are_not():
    pods = [small("runs", "q1", 2, 2, on="n"), small("a", "q1", 1, 1), small("other", "q2", 2, 2, on="n")]
    cluster = volcano(node("n", cpu="4", memory="4G"), *pods, member("none", "q1"), q1={}, q2={})
    outcome = cycle(cluster, Proportion(), actions=("allocate", "backfill"))
    assert outcome.why("a") == "QueueOverused: queue q1 holds all that it deserves: 2 cpu, 1.9Gi memory"
    assert outcome.placed == {"none": "n"}


def test_volcanos_queues_stand_side_by_side_also_if_they_name_parents():
    pods = [small("a", "q1", 1), small("b", "q2", 3)]
    cluster = volcano(node("n", cpu="4"), *pods, above={}, q1={"parent": "above"}, q2={"parent": "above"})
    outcome = cycle(cluster, Proportion())
    assert set(outcome.placed) == {"a", "b"}
    assert shares(outcome, "above", "cpu") == ("0", "0", "0", "0")
    assert {record.parent for record in outcome.document.queues} == {""}


# -- counting


def test_cards_are_counted_by_memory_and_only_on_nodes_that_answer():
    dead = [Taint("node.kubernetes.io/unreachable", "", "NoExecute")]
    cluster = scenario(node("a", gpus=2, gpu_memory=8000), node("b", gpus=4, gpu_memory=8000, taints=dead))
    add(cluster, team("q", 1))
    for one in (
        job("whole", "q", 1),
        pod("half", 1, memory=4000, annotations={"tonnage.io/queue": "q"}),
        pod("third", 1, percentage=30, annotations={"tonnage.io/queue": "q"}),
        pod("rounded", 1, memory=801, annotations={"tonnage.io/queue": "q"}),
    ):
        cluster.upsert_pod(one)
    outcome = cycle(cluster, Proportion())
    assert len(outcome.placed) == 4
    assert shares(outcome, "q", "gpu") == ("1", "1.91", "1.91", "0.91")


def test_pods_that_leave_hold_nothing_and_pods_of_unknown_queues_are_nobodys():
    cluster = scenario(
        plain("n", 4), job("gone", "q", on="n", terminating=True), job("lost", "nowhere", on="n"), job("p", "q")
    )
    outcome = cycle(add(cluster, team("q", 1, 1)), Proportion())
    assert outcome.placed == {"p": "n"}
    assert shares(outcome, "q", "gpu") == ("1", "1", "1", "0")


def test_without_queues_nothing_is_counted_and_nothing_is_said():
    cluster = scenario(plain("n", 1), pod("a", 1), pod("b", 1))
    plugin = Proportion()
    outcome = cycle(cluster, plugin)
    assert outcome.placed == {"a": "n"}
    assert outcome.document.queues == []
    assert plugin._rules is None


def test_absurd_amounts_do_no_harm():
    cluster = scenario(plain("n", 1), job("a", "q"), job("b", "r"))
    huge = {"quota": 1e18, "limit": 1e18, "overQuotaWeight": 1e9}
    add(cluster, kai_queue("q", resources={"gpu": huge, "cpu": huge, "memory": huge}, priority=2**31 - 1), team("r"))
    assert cycle(cluster, Proportion()).placed == {"a": "n"}


@pytest.mark.parametrize("seed", range(20))
def test_what_queues_hold_is_what_a_recount_finds(seed):
    """After random placements and gangs that are given up, events have left the same numbers as counting anew."""
    draw = random.Random(seed)
    cluster = scenario(*[plain(f"n{n}", 4) for n in range(3)])
    by_kai = draw.random() < 0.5
    for name in ("q0", "q1", "q2"):
        limit = draw.choice([-1, 3])
        more = {} if limit < 0 else {"capability": {"nvidia.com/gpu": limit}}
        add(
            cluster,
            team(name, draw.randrange(4), limit) if by_kai else queue(name, weight=1 + draw.randrange(3), **more),
        )
        for number in range(4):
            size, key = 1 + draw.randrange(3), f"{name}-{number}"
            add(cluster, group(key, size, queue=name))
            for one in range(size):
                cluster.upsert_pod(member(f"{key}-{one}", key, 1 + draw.randrange(2)))
    outcome = cycle(cluster, Proportion())
    resource = "gpu" if by_kai else "nvidia.com/gpu"
    for name in ("q0", "q1", "q2"):
        placed = [d.task for d in outcome.decisions.values() if d.outcome == "placed" and d.job.queue == name]
        cards = sum(request.count for task in placed for demand in task.demands for request in demand.requests)
        assert shares(outcome, name, resource)[2] == str(cards)
    with Session(cluster, [*default_plugins(), Proportion()]) as session:
        assert [r.resources[resource].allocated for r in session.queues.records()] == [
            r.resources[resource].allocated for r in outcome.document.queues
        ]
