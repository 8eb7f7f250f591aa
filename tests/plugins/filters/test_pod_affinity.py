"""Required pod affinity and anti-affinity: near whom a pod must run, far from whom, and who repels it."""

import pytest

from tests.neighbours import HOST, ZONE, labelled, term, zoned
from tests.scenario import decide, node, problems, reasons, scenario, session
from tonnage.cluster.podrules import MOST_TERMS, pod_rules
from tonnage.cluster.task import make_task
from tonnage.model.meta import ObjectMeta
from tonnage.model.selection import Expression, LabelSelector
from tonnage.model.storage import Namespace


def zones(*pods):
    return scenario(zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), zoned("x"), *pods)


def feasible(cluster, wanted):
    return sorted(decide(cluster, wanted).scores)


# -- affinity


def test_a_pod_goes_to_the_domain_of_the_pods_it_must_be_near():
    cluster = zones(labelled("w", "web", on="a1"))
    decision = decide(cluster, labelled("p", "db", near=[term(ZONE)]))
    assert sorted(decision.scores) == ["a1", "a2"]
    assert reasons(decision) == {"PodAffinityMismatch": 2}
    assert decision.rejected[0].message == (
        "b1: none of the pods that the pod must be near runs in topology.kubernetes.io/zone=b"
    )
    assert feasible(cluster, labelled("p", "db", near=[term(HOST)])) == ["a1"]


def test_a_node_without_the_topology_label_is_in_no_domain():
    cluster = scenario(zoned("x"), labelled("w", "web", on="x"))
    decision = decide(cluster, labelled("p", "db", near=[term(ZONE)]))
    assert decision.node is None
    assert decision.rejected[0].message == (
        "x: the node has no label topology.kubernetes.io/zone, which the pod's affinity is about"
    )


def test_the_first_pod_of_a_group_may_go_anywhere_with_the_label():
    assert feasible(zones(), labelled("p", "web", near=[term(ZONE)])) == ["a1", "a2", "b1"]
    decision = decide(zones(), labelled("p", "db", near=[term(ZONE)]))
    assert decision.node is None
    assert decision.rejected[0].message == (
        "a1: none of the pods that the pod must be near runs anywhere, and the pod is not one of them itself"
    )


def test_the_second_pod_of_a_group_joins_the_first():
    cluster = zones(labelled("first", "web", on="b1"))
    assert feasible(cluster, labelled("p", "web", near=[term(ZONE)])) == ["b1"]


def test_pods_on_nodes_without_the_label_do_not_start_a_group():
    cluster = zones(labelled("first", "web", on="x"))
    assert feasible(cluster, labelled("p", "web", near=[term(ZONE)])) == ["a1", "a2", "b1"]


def test_one_pod_must_meet_all_terms_though_the_domains_may_differ():
    terms = [term(ZONE, "web"), term(HOST, LabelSelector({"tier": "front"}))]
    apart = zones(labelled("w", "web", on="a1"), labelled("f", "other", on="a1", labels={"tier": "front"}))
    assert feasible(apart, labelled("p", "db", near=terms)) == []
    both = zones(labelled("w", "web", on="a1", labels={"tier": "front"}))
    assert feasible(both, labelled("p", "db", near=terms)) == ["a1"]


# -- anti-affinity


def test_a_pod_stays_away_from_domains_of_the_pods_it_must_be_far_from():
    cluster = zones(labelled("other", "db", on="a1"), labelled("w", "web", on="a1"))
    decision = decide(cluster, labelled("p", "db", far=[term(ZONE)]))
    assert sorted(decision.scores) == ["b1", "x"]
    assert reasons(decision) == {"PodAntiAffinityConflict": 2}
    assert decision.rejected[0].message == (
        "a1: topology.kubernetes.io/zone=a has default/w on a1, which the pod's anti-affinity excludes"
    )


def test_any_of_several_terms_keeps_a_pod_away():
    cluster = zones(labelled("w", "web", on="b1"), labelled("d", "db", on="x"))
    assert feasible(cluster, labelled("p", "job", far=[term(ZONE, "web"), term(HOST, "db")])) == ["a1", "a2"]


def test_anti_affinity_of_pods_that_run_keeps_others_away():
    cluster = zones(labelled("shy", "db", on="a2", far=[term(ZONE, "web")]))
    decision = decide(cluster, labelled("p", "web"))
    assert sorted(decision.scores) == ["b1", "x"]
    assert reasons(decision) == {"RepelledByAntiAffinity": 2}
    assert decision.rejected[0].message == (
        "a1: topology.kubernetes.io/zone=a has default/shy on a2, whose anti-affinity excludes this pod"
    )
    assert feasible(cluster, labelled("p", "db")) == ["a1", "a2", "b1", "x"]


def test_a_running_pods_anti_affinity_is_forgotten_with_it_and_changes_with_it():
    cluster = zones(labelled("shy", "db", on="a2", far=[term(ZONE, "web")]))
    wanted = labelled("p", "web")
    assert feasible(cluster, wanted) == ["b1", "x"]
    cluster.upsert_pod(labelled("shy", "db", on="a2", far=[term(HOST, "web")]))
    assert feasible(cluster, wanted) == ["a1", "b1", "x"]
    cluster.upsert_pod(labelled("shy", "db", on="a2"))
    assert feasible(cluster, wanted) == ["a1", "a2", "b1", "x"]


def test_pods_that_keep_apart_get_a_node_each_and_the_last_one_waits():
    cluster = scenario(*(zoned(f"n{n}") for n in range(3)))
    open_session = session(cluster)
    tasks = [make_task(labelled(f"p{n}", far=[term(HOST)]), cluster.vendors) for n in range(4)]
    assert [open_session.place(task).node for task in tasks] == ["n0", "n1", "n2", None]
    waiting = open_session.decide(tasks[3])
    assert reasons(waiting) == {"PodAntiAffinityConflict": 3}


def test_undoing_a_placement_brings_back_the_same_answers():
    cluster = zones(labelled("w", "web", on="a1"))
    open_session = session(cluster)
    probes = [
        make_task(labelled("q", "web"), cluster.vendors),
        make_task(labelled("q", "web", near=[term(ZONE, "db")]), cluster.vendors),
        make_task(labelled("q", "job", far=[term(HOST, "db")]), cluster.vendors),
    ]

    def answers():
        return [(d.scores, reasons(d)) for d in map(open_session.decide, probes)]

    before = answers()
    open_session.place(make_task(labelled("p", "db", far=[term(ZONE, "web")]), cluster.vendors))
    assert answers() != before
    open_session.unplace("default/p")
    assert answers() == before


def test_labels_of_a_running_pod_are_followed():
    cluster = zones(labelled("w", "web", on="a1"))
    open_session = session(cluster)
    wanted = make_task(labelled("p", "db", near=[term(ZONE)]), cluster.vendors)
    assert sorted(open_session.decide(wanted).scores) == ["a1", "a2"]
    cluster.upsert_pod(labelled("w", "other", on="a1"))
    assert sorted(open_session.decide(wanted).scores) == []
    cluster.upsert_pod(labelled("w", "web", on="b1"))
    assert sorted(open_session.decide(wanted).scores) == ["b1"]


def test_labels_of_nodes_are_followed():
    cluster = zones(labelled("w", "web", on="a1"))
    open_session = session(cluster)
    wanted = make_task(labelled("p", "db", near=[term(ZONE)]), cluster.vendors)
    assert sorted(open_session.decide(wanted).scores) == ["a1", "a2"]
    cluster.upsert_node(zoned("a2", "b"))
    assert sorted(open_session.decide(wanted).scores) == ["a1"]
    cluster.upsert_node(zoned("a0", "a"))
    assert sorted(open_session.decide(wanted).scores) == ["a0", "a1"]


def test_a_pod_that_is_being_deleted_still_counts():
    cluster = zones(labelled("w", "web", on="a1", leaving=True))
    assert feasible(cluster, labelled("p", "db", far=[term(ZONE)])) == ["b1", "x"]


# -- which pods are meant


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        (LabelSelector({"app": "web"}), True),
        (LabelSelector({"app": "web", "tier": "back"}), False),
        (LabelSelector(matchExpressions=[Expression("app", "In", ["db", "web"])]), True),
        (LabelSelector(matchExpressions=[Expression("app", "NotIn", ["web"])]), False),
        (LabelSelector(matchExpressions=[Expression("gone", "NotIn", ["x"])]), True),
        (LabelSelector(matchExpressions=[Expression("tier", "Exists")]), True),
        (LabelSelector(matchExpressions=[Expression("tier", "DoesNotExist")]), False),
        (LabelSelector(), True),
        (None, False),
    ],
)
def test_selectors_mean_pods_by_their_labels(selector, meant):
    cluster = zones(labelled("w", "web", on="a1", labels={"tier": "front"}))
    assert (feasible(cluster, labelled("p", "job", near=[term(HOST, selector)])) == ["a1"]) == meant


@pytest.mark.parametrize(
    ("more", "meant"),
    [
        ({}, False),
        ({"namespaces": ["team"]}, True),
        ({"namespaces": ["default"]}, False),
        ({"namespaceSelector": LabelSelector()}, True),
        ({"namespaceSelector": LabelSelector({"kind": "shared"})}, True),
        ({"namespaceSelector": LabelSelector({"kind": "private"})}, False),
        ({"namespaces": ["default"], "namespaceSelector": LabelSelector({"kind": "shared"})}, True),
        ({"namespaceSelector": LabelSelector({"kubernetes.io/metadata.name": "team"})}, True),
    ],
)
def test_terms_mean_pods_of_their_own_namespace_unless_they_say_otherwise(more, meant):
    cluster = zones(labelled("w", "web", on="a1", namespace="team"))
    cluster.upsert_surrounding(Namespace(ObjectMeta("team", labels={"kind": "shared"})))
    assert (feasible(cluster, labelled("p", "job", near=[term(HOST, **more)])) == ["a1"]) == meant


def test_labels_of_namespaces_that_are_not_known_match_nothing_and_that_is_said_once():
    cluster = zones(labelled("w", "web", on="a1", namespace="team"))
    chosen = term(HOST, namespaceSelector=LabelSelector(matchExpressions=[Expression("kind", "DoesNotExist")]))
    with session(cluster) as open_session:
        for name in "pq":
            decision = open_session.decide(make_task(labelled(name, "job", near=[chosen]), cluster.vendors))
            assert decision.node is None
        told = open_session.problems()
    assert [(problem.object, problem.field) for problem in told] == [("Plugin/predicates", "Namespace")]
    assert told[0].message == "the labels of default, team are not known; no namespaceSelector matches them"
    by_name = term(HOST, namespaceSelector=LabelSelector({"kubernetes.io/metadata.name": "team"}))
    assert feasible(cluster, labelled("p", "job", near=[by_name])) == ["a1"]
    cluster.upsert_surrounding(Namespace(ObjectMeta("team")))
    assert feasible(cluster, labelled("p", "job", near=[chosen])) == ["a1"]


def test_a_running_pod_that_asks_for_unknown_namespaces_is_told_too():
    repels = term(HOST, namespaceSelector=LabelSelector({"kind": "shared"}))
    cluster = zones(labelled("shy", "db", on="a1", far=[repels]))
    with session(cluster) as open_session:
        open_session.decide(make_task(labelled("p", "web", namespace="team"), cluster.vendors))
        assert len(open_session.problems()) == 1


def test_keys_alone_mean_pods_with_the_same_value_or_another():
    cluster = zones(
        labelled("old", "web", on="a1", labels={"version": "1"}),
        labelled("new", "web", on="b1", labels={"version": "2"}),
    )
    mine = {"version": "2"}
    same = term(ZONE, matchLabelKeys=["version", "absent"])
    assert feasible(cluster, labelled("p", "web", labels=mine, near=[same])) == ["b1"]
    other = term(ZONE, mismatchLabelKeys=["version"])
    assert feasible(cluster, labelled("p", "web", labels=mine, near=[other])) == ["a1", "a2"]


# -- bad input


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (term(""), "the topologyKey is empty"),
        (term(HOST, LabelSelector(matchExpressions=[Expression("app", "Near", ["a"])])), "operator 'Near' of app"),
        (term(HOST, LabelSelector(matchExpressions=[Expression("app", "Gt", ["1"])])), "operator 'Gt' of app"),
        (term(HOST, LabelSelector(matchExpressions=[Expression("app", "In", [])])), "In on app needs values"),
        (
            term(HOST, LabelSelector(matchExpressions=[Expression("app", "Exists", ["a"])])),
            "Exists on app takes no values",
        ),
        (term(HOST, None, matchLabelKeys=["app"]), "matchLabelKeys and mismatchLabelKeys need a labelSelector"),
        (term(HOST, matchLabelKeys=["app"], mismatchLabelKeys=["app"]), "app is in both"),
        (term(HOST, namespaceSelector=LabelSelector(matchExpressions=[Expression("k", "NotIn")])), "NotIn on k needs"),
    ],
)
@pytest.mark.parametrize("kind", ["near", "far"])
def test_a_term_without_meaning_keeps_the_pod_waiting(kind, bad, said):
    decision = decide(zones(), labelled("p", **{kind: [bad]}))
    assert reasons(decision) == {"InvalidPodAffinity": 4}
    assert said in decision.rejected[0].message
    assert decision.rejected[0].message.startswith("spec.affinity.pod")


def test_a_running_pod_with_a_term_without_meaning_gets_in_nobodys_way():
    cluster = zones(labelled("odd", "db", on="a1", far=[term(""), term(HOST, "web")]))
    assert feasible(cluster, labelled("p", "web")) == ["a2", "b1", "x"]
    assert problems(cluster) == []


# -- very many terms


@pytest.mark.parametrize("kind", ["near", "far"])
def test_equal_terms_count_once(kind):
    rules = pod_rules(labelled("p", **{kind: [term(HOST, "web") for _ in range(200)]}))
    assert len(rules.affinity) + len(rules.anti) == 1
    assert not rules.faults


@pytest.mark.parametrize("kind", ["near", "far"])
def test_a_pod_with_too_many_terms_waits_and_is_told_why(kind):
    many = [term(HOST, f"app-{number}") for number in range(MOST_TERMS + 1)]
    assert decide(zones(), labelled("p", far=many[:-1])).node is not None
    decision = decide(zones(), labelled("p", **{kind: many}))
    assert reasons(decision) == {"InvalidPodAffinity": 4}
    assert decision.rejected[0].message == (
        "spec.affinity: the pod has 65 different terms about other pods, and may have 64; remove some"
    )


def test_of_a_running_pod_with_too_many_terms_the_first_count():
    many = [term(HOST, f"app-{number}") for number in range(MOST_TERMS + 1)]
    cluster = zones(labelled("odd", "db", on="a1", far=many))
    assert feasible(cluster, labelled("p", "app-0")) == ["a2", "b1", "x"]
    assert feasible(cluster, labelled("p", "app-64")) == ["a1", "a2", "b1", "x"]


def test_a_pod_that_leaves_and_is_restored_repels_as_before():
    cluster = zones(labelled("odd", "db", on="a1", far=[term(HOST, "web")]))
    wanted = labelled("p", "web")
    assert feasible(cluster, wanted) == ["a2", "b1", "x"]
    cluster.look_ahead(True)
    cluster.evict("default/odd")
    assert feasible(cluster, wanted) == ["a1", "a2", "b1", "x"]
    assert not cluster.placed.anti_affinity
    cluster.restore("default/odd")
    assert feasible(cluster, wanted) == ["a2", "b1", "x"]


def test_terms_without_a_carrier_are_forgotten_in_the_end():
    cluster = zones()
    for number in range(1000):
        cluster.upsert_pod(labelled("odd", "db", on="a1", far=[term(HOST, f"app-{number}")]))
    assert len(cluster.placed.anti_affinity.carried) == 1
    assert len(cluster.placed.anti_affinity._counts) < 300


# -- with everything else


def test_other_reasons_come_first():
    cluster = scenario(
        node("small", cpu=1, labels={HOST: "small"}),
        node("big", labels={HOST: "big"}),
        labelled("w", "web", on="small", cpu=1),
    )
    assert decide(cluster, labelled("p", "db", near=[term(HOST)])).node == "small"
    needy = labelled("p", "db", near=[term(HOST)], cpu=1)
    assert reasons(decide(cluster, needy)) == {"InsufficientCpu": 1, "PodAffinityMismatch": 1}


def test_volcanos_vector_of_anti_affinity_without_its_gang():
    """Section 8, vector 40: the gang's second pod finds no node, the first is given up, and the third is placed."""
    cluster = scenario(
        node("node1", cpu=14, memory="14k", labels={HOST: "node1"}),
        node("node2", cpu=3, memory="3k", labels={HOST: "node2"}),
    )

    def worker(number, cpu):
        made = labelled(f"worker-{number}", "worker", far=[term(HOST, "worker")], cpu=cpu, memory=f"{cpu}k")
        return make_task(made, cluster.vendors)

    open_session = session(cluster)
    assert open_session.place(worker(1, 3)).node == "node1"
    second = open_session.place(worker(2, 5))
    assert second.node is None
    assert reasons(second)["PodAntiAffinityConflict"] == 1
    open_session.unplace("default/worker-1")
    assert open_session.place(worker(3, 4)).node == "node1"
