"""Selectors, affinity, taints and cordons: where a pod may go, and what is said about the other nodes."""

import pytest

from tests.scenario import decide, node, pod, reasons, scenario
from tonnage.model.selection import (
    Affinity,
    Expression,
    NodeAffinity,
    NodeSelector,
    SelectorTerm,
    Taint,
    Toleration,
)

GPU_TAINT = Taint("gpu", "NoSchedule", "a100")


def zones():
    return scenario(
        node("n1", labels={"zone": "a", "generation": "7"}),
        node("n2", labels={"zone": "b", "generation": "8"}),
        node("n3"),
    )


def required(*terms):
    return Affinity(NodeAffinity(NodeSelector(list(terms))))


def term(*expressions, fields=()):
    return SelectorTerm([Expression(*e) for e in expressions], [Expression(*e) for e in fields])


def feasible(cluster, wanted):
    return sorted(decide(cluster, wanted).scores)


def test_a_selector_wants_every_label():
    decision = decide(zones(), pod("p", selector={"zone": "b", "generation": "8"}))
    assert decision.node == "n2"
    assert reasons(decision) == {"NodeAffinityMismatch": 2}
    assert decision.rejected[0].plugin == "nodeselection"
    assert decision.rejected[0].message == (
        "n1: its labels do not match the pod's node selector or required node affinity"
    )
    assert reasons(decide(zones(), pod("p", selector={"zone": "b", "generation": "7"}))) == {"NodeAffinityMismatch": 3}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([term(("zone", "In", ["a", "b"]))], ["n1", "n2"]),
        ([term(("zone", "NotIn", ["a"]))], ["n2", "n3"]),
        ([term(("zone", "Exists"))], ["n1", "n2"]),
        ([term(("zone", "DoesNotExist"))], ["n3"]),
        ([term(("generation", "Gt", ["7"]))], ["n2"]),
        ([term(("generation", "Lt", ["8"]))], ["n1"]),
        ([term(("zone", "In", ["a"])), term(("generation", "In", ["8"]))], ["n1", "n2"]),
        ([term(("zone", "Exists"), ("generation", "Gt", ["7"]))], ["n2"]),
        ([term(fields=[("metadata.name", "In", ["n3"])])], ["n3"]),
        ([term(("zone", "Exists"), fields=[("metadata.name", "NotIn", ["n1"])])], ["n2"]),
        ([term()], []),
        ([], []),
    ],
)
def test_required_node_affinity(terms, expected):
    assert feasible(zones(), pod("p", affinity=required(*terms))) == expected


def test_selector_and_affinity_must_both_hold():
    wanted = pod("p", selector={"zone": "a"}, affinity=required(term(("generation", "In", ["8"]))))
    assert feasible(zones(), wanted) == []


@pytest.mark.parametrize(
    "expression", [("zone", "Near", ["a"]), ("zone", "In", []), ("generation", "Gt", ["x"]), ("zone", "Gt", ["1", "2"])]
)
def test_an_expression_without_meaning_keeps_the_pod_waiting(expression):
    decision = decide(zones(), pod("p", affinity=required(term(expression))))
    assert reasons(decision) == {"InvalidNodeAffinity": 3}
    assert expression[0] in decision.rejected[0].message


def test_only_the_name_can_be_matched_as_a_field():
    decision = decide(zones(), pod("p", affinity=required(term(fields=[("spec.unschedulable", "Exists")]))))
    assert reasons(decision) == {"InvalidNodeAffinity": 3}


def test_labels_are_followed_as_they_change():
    cluster = zones()
    wanted = pod("p", selector={"zone": "b"})
    assert feasible(cluster, wanted) == ["n2"]
    cluster.upsert_node(node("n3", labels={"zone": "b"}))
    cluster.upsert_node(node("n2", labels={"zone": "c"}))
    assert feasible(cluster, wanted) == ["n3"]
    cluster.upsert_node(node("n0", labels={"zone": "b"}))
    cluster.remove_node("n1")
    assert feasible(cluster, wanted) == ["n0", "n3"]


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        (None, False),
        ([Toleration("gpu", "Exists")], True),
        ([Toleration("gpu", "Equal", "a100")], True),
        ([Toleration("gpu", None, "a100", "NoSchedule")], True),
        ([Toleration("gpu", "Equal", "v100")], False),
        ([Toleration("gpu", "Exists", effect="NoExecute")], False),
        ([Toleration(operator="Exists")], True),
        ([Toleration("other", "Exists")], False),
    ],
)
def test_taints_keep_pods_away_that_do_not_tolerate_them(tolerations, fits):
    decision = decide(scenario(node("n", taints=[GPU_TAINT])), pod("p", tolerations=tolerations))
    assert (decision.node == "n") == fits
    if not fits:
        assert reasons(decision) == {"UntoleratedTaint": 1}
        assert decision.rejected[0].message == "n: the pod does not tolerate taint gpu=a100:NoSchedule"


def test_a_taint_that_only_prefers_keeps_nobody_away():
    assert decide(scenario(node("n", taints=[Taint("gpu", "PreferNoSchedule")])), pod("p")).node == "n"


def test_a_cordoned_node_takes_only_pods_that_tolerate_that():
    cluster = scenario(node("n", unschedulable=True))
    decision = decide(cluster, pod("p"))
    assert reasons(decision) == {"NodeUnschedulable": 1}
    assert decision.rejected[0].message == "n: cordoned (spec.unschedulable)"
    allowed = [Toleration("node.kubernetes.io/unschedulable", "Exists")]
    assert decide(cluster, pod("p", tolerations=allowed)).node == "n"


def test_nodes_are_grouped_by_the_first_thing_that_is_wrong():
    cluster = scenario(
        node("a", cpu=1),
        node("b", taints=[GPU_TAINT]),
        node("c", unschedulable=True),
        node("d"),
        node("e", gpus=1),
    )
    decision = decide(cluster, pod("p", 1, cpu=2))
    assert decision.node == "e"
    assert {(r.plugin, r.reason): r.count for r in decision.rejected} == {
        ("noderesources", "InsufficientCpu"): 1,
        ("nodeselection", "UntoleratedTaint"): 1,
        ("nodeselection", "NodeUnschedulable"): 1,
        ("devices", "NodeUnregistered"): 1,
    }
