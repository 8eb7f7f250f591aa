"""Pods for which no eviction would help: nobody is tried as a victim for them, and they are told why."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.actions.eviction.making_room import BUILD, crowd, evicted, job, kai, node
from tests.groups import Outcome, add
from tests.neighbours import HOST, labelled, term, zoned
from tests.plugins.queues.teams import team
from tonnage.cluster.cluster import Cluster
from tonnage.model.node import NodeSpec, Taint
from tonnage.model.pod import Pod

ALL = ("allocate", "consolidation", "reclaim", "preempt")


def with_rules(things: list[Any], rules: Pod) -> list[Any]:
    """The pods of a job, with the affinity and node selector of another pod."""
    return [
        replace(one, spec=replace(one.spec, affinity=rules.spec.affinity, nodeSelector=rules.spec.nodeSelector))
        if isinstance(one, Pod)
        else one
        for one in things
    ]


def full(*more: Any, nodes: int = 5) -> Cluster:
    """Nodes of two cards, each of which is taken by a job that may be stopped."""
    running = [job(f"run-{n}-{card}", "q", on=f"n{n}") for n in range(nodes) for card in range(2)]
    return crowd(*[node(f"n{n}", 2) for n in range(nodes)], team("q", 2 * nodes), *running, *more)


def why(outcome: Outcome, name: str, action: str) -> str:
    return outcome.session.waits[f"default/{name}"][action].message


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (labelled("x", far=[term("")]), "InvalidPodAffinity: spec.affinity.podAntiAffinity"),
        (labelled("x", near=[term(HOST, f"a{n}") for n in range(200)]), "200 different terms about other pods"),
        (labelled("x", selector={"disk": "none"}), "5 NodeAffinityMismatch"),
    ],
)
def test_nobody_is_tried_for_a_pod_that_no_eviction_helps(rules, said, removed):
    cluster = full(with_rules(job("p", "q", priority=BUILD), rules))
    outcome = kai(cluster, *ALL)
    assert (removed, evicted(outcome)) == ([], [])
    assert said in why(outcome, "p", "preempt")
    assert "no eviction would help default/p-0" in why(outcome, "p", "preempt")


def test_a_gang_with_one_such_pod_costs_nothing_either(removed):
    gang = job("p", "q", pods=3, priority=BUILD)
    gang[2:3] = with_rules(gang[2:3], labelled("x", far=[term("")]))
    assert evicted(kai(full(gang), *ALL)) == []
    assert removed == []


def test_only_nodes_are_looked_at_on_which_an_eviction_helps(removed):
    tainted = replace(node("closed", 2), spec=NodeSpec(taints=[Taint("key", effect="NoSchedule")]))
    cluster = full(tainted, *[job(f"old-{n}", "q", on="closed") for n in range(2)], job("p", "q", priority=BUILD))
    outcome = kai(cluster, "allocate", "preempt")
    assert len(evicted(outcome)) == 1
    assert not [key for key in removed if key.startswith("default/old")]


def test_a_pod_that_a_few_nodes_would_take_finds_its_victim_there(removed):
    cluster = full(with_rules(job("p", "q", priority=BUILD), labelled("x", selector={HOST: "near"})))
    near = zoned("near")
    near.status.allocatable["nvidia.com/gpu"] = "1"
    near.metadata.labels["nvidia.com/gpu.memory"] = "100"
    cluster.upsert_node(near)
    for one in job("victim", "q", on="near"):
        cluster.upsert_pod(one) if isinstance(one, Pod) else add(cluster, one)
    assert evicted(kai(cluster, "allocate", "preempt")) == ["victim-0"]
    assert set(removed) == {"default/victim-0"}
