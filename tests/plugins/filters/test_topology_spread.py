"""Spread constraints that must be met: skew, domains, policies, and which pods are counted."""

import pytest

from tests.neighbours import HOST, ZONE, labelled, spread, zoned
from tests.scenario import decide, reasons, scenario, session
from tonnage.cluster.task import make_task
from tonnage.model.selection import LabelSelector, Taint, Toleration


def web(counts):
    """Running pods of the app web: how many on each node."""
    return [labelled(f"{name}-{n}", "web", on=name) for name, count in counts.items() for n in range(count)]


def zones(**counts):
    """Two nodes in zone a, one in b, one in none, with running pods."""
    return scenario(zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), zoned("x"), *web(counts))


def feasible(cluster, wanted):
    return sorted(decide(cluster, wanted).scores)


def test_the_fuller_domain_is_closed_until_the_other_catches_up():
    cluster = zones(a1=1)
    decision = decide(cluster, labelled("p", spread=[spread(1, ZONE)]))
    assert sorted(decision.scores) == ["b1"]
    assert reasons(decision) == {"TopologySpreadExceeded": 2, "TopologyLabelMissing": 1}
    by_reason = {rejected.reason: rejected.message for rejected in decision.rejected}
    assert by_reason["TopologySpreadExceeded"] == (
        "a1: topology.kubernetes.io/zone=a has 1 such pod; with this one the skew would be 1 + 1 - 0 = 2, above 1"
    )
    assert by_reason["TopologyLabelMissing"] == (
        "x: has no label topology.kubernetes.io/zone, over which the pod must be spread"
    )
    assert feasible(zones(a1=1, b1=1), labelled("p", spread=[spread(1, ZONE)])) == ["a1", "a2", "b1"]


def test_a_larger_skew_is_more_patient():
    assert feasible(zones(a1=1), labelled("p", spread=[spread(2, ZONE)])) == ["a1", "a2", "b1"]
    assert feasible(zones(a1=1, a2=1), labelled("p", spread=[spread(2, ZONE)])) == ["b1"]


def test_a_pod_that_the_constraint_does_not_mean_does_not_count_itself():
    assert feasible(zones(a1=1), labelled("p", "db", spread=[spread(1, ZONE)])) == ["a1", "a2", "b1"]
    assert feasible(zones(a1=1, a2=1), labelled("p", "db", spread=[spread(1, ZONE)])) == ["b1"]


def test_all_constraints_must_be_met():
    cluster = zones(a1=1, b1=1)
    wanted = labelled("p", spread=[spread(1, ZONE), spread(1, HOST)])
    assert feasible(cluster, wanted) == ["a2"]


def test_fewer_domains_than_wanted_make_the_least_count_nothing():
    full = zones(a1=1, b1=1)
    assert feasible(full, labelled("p", spread=[spread(1, ZONE, minDomains=2)])) == ["a1", "a2", "b1"]
    decision = decide(full, labelled("p", spread=[spread(1, ZONE, minDomains=3)]))
    assert decision.node is None
    assert any("1 + 1 - 0 = 2, above 1" in rejected.message for rejected in decision.rejected)


def test_nodes_that_the_pod_does_not_select_do_not_count_unless_the_policy_says_so():
    cluster = scenario(
        zoned("a1", "a", pool="x"), zoned("b1", "b", pool="x"), zoned("c1", "c"), *web({"a1": 1, "b1": 1})
    )
    wanted = {"selector": {"pool": "x"}}
    assert feasible(cluster, labelled("p", spread=[spread(1, ZONE)], **wanted)) == ["a1", "b1"]
    ignoring = spread(1, ZONE, nodeAffinityPolicy="Ignore")
    assert feasible(cluster, labelled("p", spread=[ignoring], **wanted)) == []


def test_tainted_nodes_count_unless_the_policy_honors_taints():
    tainted = zoned("c1", "c", taints=[Taint("gpu", "NoSchedule")])
    cluster = scenario(zoned("a1", "a"), zoned("b1", "b"), tainted, *web({"a1": 1, "b1": 1}))
    assert feasible(cluster, labelled("p", spread=[spread(1, ZONE)])) == []
    honoring = spread(1, ZONE, nodeTaintsPolicy="Honor")
    assert feasible(cluster, labelled("p", spread=[honoring])) == ["a1", "b1"]
    tolerant = labelled("p", spread=[honoring], tolerations=[Toleration("gpu", "Exists")])
    assert feasible(cluster, tolerant) == ["c1"]


def test_only_nodes_with_the_labels_of_all_constraints_count():
    cluster = scenario(zoned("a1", "a", rack="r"), zoned("b1", "b"), *web({"a1": 1}))
    wanted = labelled("p", spread=[spread(1, ZONE), spread(5, "rack")])
    assert feasible(cluster, wanted) == ["a1"]


def test_pods_of_other_namespaces_and_pods_that_are_going_do_not_count():
    elsewhere = labelled("w", "web", on="a1", namespace="team")
    going = labelled("g", "web", on="a1", leaving=True)
    cluster = scenario(zoned("a1", "a"), zoned("b1", "b"), elsewhere, going)
    assert feasible(cluster, labelled("p", spread=[spread(1, ZONE)])) == ["a1", "b1"]


def test_keys_alone_count_pods_with_the_same_value():
    old = labelled("old", "web", on="a1", labels={"version": "1"})
    cluster = scenario(zoned("a1", "a"), zoned("b1", "b"), old)
    by_version = spread(1, ZONE, matchLabelKeys=["version"])
    assert feasible(cluster, labelled("p", labels={"version": "2"}, spread=[by_version])) == ["a1", "b1"]
    assert feasible(cluster, labelled("p", labels={"version": "1"}, spread=[by_version])) == ["b1"]
    assert feasible(cluster, labelled("p", spread=[by_version])) == ["b1"]


@pytest.mark.parametrize(("selector", "expected"), [(LabelSelector(), ["b1"]), (None, ["a1", "a2", "b1"])])
def test_an_empty_selector_counts_all_pods_and_none_counts_no_pod(selector, expected):
    assert feasible(zones(a1=1), labelled("p", spread=[spread(1, ZONE, selector)])) == expected


def test_constraints_that_need_not_be_met_keep_nobody_away():
    wanted = labelled("p", spread=[spread(1, ZONE, whenUnsatisfiable="ScheduleAnyway")])
    assert feasible(zones(a1=3), wanted) == ["a1", "a2", "b1", "x"]


def test_a_group_of_pods_is_spread_as_it_is_placed_and_undone():
    cluster = scenario(zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"))
    open_session = session(cluster)
    tasks = [make_task(labelled(f"p{n}", spread=[spread(1, ZONE)]), cluster.vendors) for n in range(5)]
    found = [open_session.place(task).node for task in tasks]
    assert [node[0] for node in found] == ["a", "b", "a", "b", "a"]
    open_session.unplace("default/p1")
    open_session.unplace("default/p3")
    assert open_session.decide(tasks[1]).node == "b1"


@pytest.mark.parametrize(
    ("bad", "field", "said"),
    [
        (spread(0), "maxSkew", "maxSkew 0 is not above 0"),
        (spread(-3), "maxSkew", "maxSkew -3 is not above 0"),
        (spread(1, ""), "topologyKey", "the topologyKey is empty"),
        (spread(1, whenUnsatisfiable="Perhaps"), "whenUnsatisfiable", "'Perhaps' is neither DoNotSchedule nor"),
        (spread(1, minDomains=0), "minDomains", "minDomains 0 is not above 0"),
        (spread(1, minDomains=2, whenUnsatisfiable="ScheduleAnyway"), "minDomains", "goes with DoNotSchedule only"),
        (spread(1, nodeTaintsPolicy="Maybe"), "nodeTaintsPolicy", "'Maybe' is neither Honor nor Ignore"),
        (spread(1, nodeAffinityPolicy=""), "nodeAffinityPolicy", "'' is neither Honor nor Ignore"),
    ],
)
def test_a_constraint_without_meaning_keeps_the_pod_waiting(bad, field, said):
    decision = decide(zones(), labelled("p", spread=[spread(1), bad]))
    assert reasons(decision) == {"InvalidTopologySpread": 4}
    assert decision.rejected[0].message.startswith(f"spec.topologySpreadConstraints[1].{field}: ")
    assert said in decision.rejected[0].message
