"""Preempt: less important jobs of a queue make room for more important ones of the same queue."""

import pytest
from msgspec.structs import replace

from tests.actions.eviction.making_room import BUILD, asks, crowd, evicted, job, kai, node, promised, teams, volcano
from tests.config.texts import load
from tests.groups import cycle
from tests.plugins.queues.teams import team
from tests.scenario import node as bare
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.pernode import NodeView
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.pod import Pod

PLUGINS = ("conformance", "gang", "priority", "proportion", "predicates")
LOW_AND_HIGH = {"low": {"queue": "q", "priorityClassName": "low"}, "high": {"queue": "q", "priorityClassName": "high"}}


def low_and_high(*things, **queue):
    """One queue with a group of low priority and one of high."""
    return teams(*things, groups={name: dict(spec) for name, spec in LOW_AND_HIGH.items()}, q=queue)


def test_volcano_11_nobody_is_stopped_where_there_is_room():
    pods = [asks(f"runs-{n}", "low", 1, 1, on="n") for n in range(2)] + [asks("p", "high", 1, 1)]
    outcome = volcano(low_and_high(bare("n", cpu="10", memory="10Gi"), *pods), "preempt", *PLUGINS)
    assert evicted(outcome) == []
    assert outcome.decisions["p"].node == "n"


def test_volcano_13_a_large_pod_stops_the_two_that_may_be_stopped_and_not_the_third():
    pods = [asks(f"r{n}", "low", 1, 1, on="n", stays=n == 3) for n in (1, 2, 3)]
    cluster = low_and_high(bare("n", cpu="6", memory="6Gi"), *pods, asks("p", "high", 5, 5))
    outcome = volcano(cluster, "preempt", *PLUGINS)
    assert evicted(outcome) == ["r1", "r2"]
    assert promised(outcome) == {"p": "n"}
    assert outcome.decisions["p"].waits_for == ["default/r1", "default/r2"]


@pytest.mark.parametrize(("most", "gone"), [(4, ["runs"]), (6, [])])
def test_volcano_14_a_queue_at_its_capability_stops_its_own_pods_although_nodes_are_free(most, gone):
    pods = [asks("runs", "low", 3, 3, on="n"), asks("p", "high", 3, 3)]
    limit = {"capability": {"cpu": most, "memory": f"{most}Gi"}}
    # A gang of one that may not fall below its minimum would be spared by gang, so the group has none.
    cluster = teams(
        bare("n", cpu="12", memory="12Gi"),
        *pods,
        groups={"low": {**LOW_AND_HIGH["low"], "minimum": 0}, "high": dict(LOW_AND_HIGH["high"])},
        q=limit,
    )
    outcome = volcano(cluster, "preempt", *PLUGINS)
    assert evicted(outcome) == gone
    assert outcome.decisions["p"].node == "n"


@pytest.mark.parametrize("cpu", [1, 0])
def test_volcano_16_a_place_for_a_pod_is_made_by_one_that_asks_for_nothing(cpu):
    cluster = teams(
        bare("n", cpu="10", memory="10Gi", pods="1"),
        *[asks("runs", "low", on="n"), asks("p", "high", cpu)],
        groups={"low": {**LOW_AND_HIGH["low"], "minimum": 0}, "high": dict(LOW_AND_HIGH["high"])},
        q={},
    )
    outcome = volcano(cluster, "preempt", *PLUGINS)
    assert evicted(outcome) == ["runs"]
    assert promised(outcome) == {"p": "n"}


def never(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, preemptionPolicy="Never"))


def test_volcano_17_a_pod_that_says_so_stops_nobody():
    pods = [asks(f"runs-{n}", "low", 1, 1, on="n") for n in range(2)]
    for made, gone in ((asks("p", "high", 1, 1), 1), (never(asks("p", "high", 1, 1)), 0)):
        outcome = volcano(low_and_high(bare("n", cpu="2", memory="2Gi"), *pods, made), "preempt", *PLUGINS)
        assert len(evicted(outcome)) == gone


def test_volcano_19_the_pod_goes_whose_leaving_lets_both_the_node_and_the_queue_have_the_new_one():
    """Without the pod of n1 the queue would still hold 4, and may hold 6."""
    pods = [asks("small", "low", 1, 1, on="n1"), asks("large", "low", 4, 4, on="n2"), asks("p", "high", 3, 3)]
    cluster = teams(
        bare("n1", cpu="3", memory="3Gi"),
        bare("n2", cpu="4", memory="4Gi"),
        *pods,
        groups={"low": {**LOW_AND_HIGH["low"], "minimum": 0}, "high": dict(LOW_AND_HIGH["high"])},
        q={"capability": {"cpu": 6, "memory": "6Gi"}},
    )
    outcome = volcano(cluster, "preempt", *PLUGINS)
    assert evicted(outcome) == ["large"]
    assert promised(outcome) == {"p": "n2"}


class Licence(Plugin):
    """A node has one licence that no resource speaks of; who has it keeps others off."""

    name = "licence"

    def on_session_open(self, session: Session) -> None:
        session.add_predicate(self._why_not)

    @staticmethod
    def _why_not(task: Task, job: Job, node: NodeView) -> Reason | None:
        return Reason("NoLicence", f"the licence of {node.name} is taken") if node.pods else None


def test_volcano_20_what_only_a_plugin_knows_of_is_looked_at_again_without_the_victim():
    text = "actions: preempt\ntiers:\n- plugins:\n" + "".join(f"  - name: {name}\n" for name in PLUGINS)
    cluster = teams(
        bare("n", cpu="10", memory="10Gi"),
        *[asks("runs", "low", 1, 1, on="n"), asks("p", "high", 1, 1)],
        groups={"low": {**LOW_AND_HIGH["low"], "minimum": 0}, "high": dict(LOW_AND_HIGH["high"])},
        q={},
    )
    outcome = cycle(cluster, actions=("preempt",), plugins=[*load(text).plugins, Licence()])
    assert evicted(outcome) == ["runs"]
    assert promised(outcome) == {"p": "n"}


def test_volcano_43_of_equal_jobs_the_pod_of_lower_priority_goes_first():
    pods = [asks(f"r{value}", "low", 1, 1, on="n", priority=value) for value in (5, 1, 9)]
    cluster = low_and_high(bare("n", cpu="3", memory="3Gi"), *pods, asks("p", "high", 1, 1))
    assert evicted(volcano(cluster, "preempt", *PLUGINS)) == ["r1"]


# -- KAI


def test_kai_24_one_job_with_a_whole_card_goes_instead_of_two_that_share_one():
    halves = [*job("half-a", "q", 0.5, on="n0", card="x"), *job("half-b", "q", 0.5, on="n0", card="x")]
    cluster = crowd(node("n0", 2), team("q", 2), halves, job("whole", "q", on="n0"), job("p", "q", priority=BUILD))
    outcome = kai(cluster, "preempt")
    assert evicted(outcome) == ["whole-0"]
    assert promised(outcome) == {"p-0": "n0"}


def test_kai_the_less_important_victim_goes_first():
    things = [job("low", "q", on="n0"), job("middle", "q", priority=75, on="n0"), job("p", "q", priority=BUILD)]
    assert evicted(kai(crowd(node("n0", 2), team("q", 2), *things), "preempt")) == ["low-0"]


def test_an_elastic_job_loses_only_what_it_has_beyond_its_minimum():
    elastic = job("elastic", "q", pods=3, minimum=2, on="n0")
    outcome = kai(crowd(node("n0", 3), team("q", 3), elastic, job("p", "q", priority=BUILD)), "preempt")
    assert evicted(outcome) == ["elastic-2"]


def test_a_gang_that_has_to_give_up_more_than_it_can_spare_is_stopped_as_a_whole():
    elastic = job("elastic", "q", pods=3, minimum=2, on="n0")
    outcome = kai(crowd(node("n0", 3), team("q", 3), elastic, job("p", "q", 2, priority=BUILD)), "preempt")
    assert evicted(outcome) == ["elastic-0", "elastic-1", "elastic-2"]


def test_of_a_gang_with_a_pod_that_must_not_be_stopped_only_what_can_be_spared_goes():
    pods = [asks(f"g{n}", "low", 1, on="n", stays=n == 0) for n in range(3)]
    cluster = teams(
        bare("n", cpu="3"),
        *[*pods, asks("p", "high", 2)],
        groups={"low": {**LOW_AND_HIGH["low"], "minimum": 2}, "high": dict(LOW_AND_HIGH["high"])},
        q={},
    )
    assert evicted(volcano(cluster, "preempt", "priority", "predicates")) == []
    cluster.remove_pod("default/p")
    cluster.upsert_pod(asks("p", "high", 1))
    assert evicted(volcano(cluster, "preempt", "priority", "predicates")) == ["g2"]


def test_a_gang_that_lost_its_pods_to_another_job_gets_no_place_for_the_one_that_waits():
    gang = job("gang", "q", pods=3, minimum=2, on=["n0", "n0", None])
    outcome = kai(crowd(node("n0", 3), team("q", 3), gang, job("p", "q", 2, priority=BUILD)), "preempt")
    assert evicted(outcome) == ["gang-0", "gang-1"]
    assert promised(outcome) == {"p-0": "n0"}


def elastic(*pods: Pod, cpu: int):
    """A node of some CPUs, and a group of high priority that can start with three of its twelve pods."""
    groups = {"low": {**LOW_AND_HIGH["low"], "minimum": 0}, "high": {**LOW_AND_HIGH["high"], "minimum": 3}}
    return teams(bare("n", cpu=str(cpu)), *pods, groups=groups, q={})


def test_others_are_stopped_for_the_minimum_of_a_job_only():
    running = [asks(f"low-{n}", "low", 1, on="n") for n in range(12)]
    cluster = elastic(*running, *(asks(f"high-{n}", "high", 1) for n in range(12)), cpu=12)
    outcome = volcano(cluster, "preempt", *PLUGINS)
    assert (len(evicted(outcome)), len(promised(outcome))) == (3, 3)


def test_what_a_job_has_beyond_its_minimum_takes_what_is_free_and_stops_nobody():
    running = [asks(f"low-{n}", "low", 1, on="n") for n in range(9)]
    running += [asks(f"high-{n}", "high", 1, on="n") for n in range(3)]
    cluster = elastic(*running, *(asks(f"high-{n}", "high", 1) for n in range(3, 12)), cpu=13)
    text = "actions: allocate, preempt, reclaim\ntiers:\n- plugins:\n" + "".join(f"  - name: {n}\n" for n in PLUGINS)
    outcome = cycle(cluster, actions=("allocate", "preempt", "reclaim"), plugins=load(text).plugins)
    assert (evicted(outcome), outcome.placed) == ([], {"high-3": "n"})
