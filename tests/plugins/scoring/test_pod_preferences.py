"""Preferred pod affinity and wished-for spread as scores, and KAI's plugin podaffinity."""

import numpy as np
import pytest

from tests.neighbours import HOST, ZONE, labelled, spread, term, wish, zoned
from tests.scenario import decide, reasons, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring._podpreferences import PodAffinityScore, SpreadScore, add_part
from tonnage.plugins.scoring.podaffinity import PreferredPodAffinity


def zones(*pods):
    return scenario(zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), zoned("x"), *pods)


def scores(part, cluster, wanted, without=()):
    """The scores of the nodes that are left."""
    cluster.settle()
    fits = np.array([state.name not in without for state in cluster.states])
    found = part(cluster).scores(make_task(wanted, cluster.vendors), fits)
    return {state.name: found[state.row] for state in cluster.states if fits[state.row]}


def soft(skew, topology, **more):
    return spread(skew, topology, whenUnsatisfiable="ScheduleAnyway", **more)


# -- preferred affinity


def test_nodes_score_between_the_least_and_the_most_liked():
    cluster = zones(labelled("w", "web", on="a1"), labelled("d", "db", on="b1"))
    likes = [wish(30, term(ZONE, "web")), wish(15, term(HOST, "db"))]
    assert scores(PodAffinityScore, cluster, labelled("p", "job", likes=likes)) == {
        "a1": 100,
        "a2": 100,
        "b1": 50,
        "x": 0,
    }


def test_a_wish_that_is_made_three_times_weighs_as_much_as_three():
    cluster = zones(labelled("w", "web", on="a1"), labelled("d", "db", on="b1"))
    likes = [*[wish(10, term(ZONE, "web"))] * 3, wish(15, term(HOST, "db"))]
    found = scores(PodAffinityScore, cluster, labelled("p", "job", likes=likes))
    assert found == {"a1": 100, "a2": 100, "b1": 50, "x": 0}


def test_disliked_pods_lower_the_score_below_that_of_empty_nodes():
    cluster = zones(labelled("w", "web", on="a1"))
    dislikes = [wish(10, term(ZONE, "web"))]
    found = scores(PodAffinityScore, cluster, labelled("p", "job", dislikes=dislikes))
    assert found == {"a1": 0, "a2": 0, "b1": 100, "x": 100}


def test_what_running_pods_wish_and_require_counts_too():
    likes = labelled("l", "web", on="a1", likes=[wish(4, term(HOST, "job"))])
    requires = labelled("r", "job", on="b1", near=[term(HOST, "job")])
    dislikes = labelled("d", "web", on="x", dislikes=[wish(4, term(HOST, "job"))])
    found = scores(PodAffinityScore, zones(likes, requires, dislikes), labelled("p", "job"))
    assert found == {"a1": 100, "a2": 50, "b1": 62, "x": 0}


def test_only_nodes_that_the_pod_fits_on_set_the_scale():
    cluster = zones(labelled("w", "web", on="a1"), *(labelled(f"v{n}", "web", on="b1") for n in range(4)))
    wanted = labelled("p", "job", likes=[wish(10, term(HOST, "web"))])
    assert scores(PodAffinityScore, cluster, wanted) == {"a1": 25, "a2": 0, "b1": 100, "x": 0}
    assert scores(PodAffinityScore, cluster, wanted, without=["b1"]) == {"a1": 100, "a2": 0, "x": 0}
    assert scores(PodAffinityScore, cluster, wanted, without=["a1", "a2", "b1"]) == {"x": 0}


def test_a_part_that_does_not_apply_says_so():
    cluster = zones(labelled("l", "web", on="a1", likes=[wish(4, term(HOST, "job"))]))
    part, own = PodAffinityScore(cluster), PodAffinityScore(cluster, own_only=True)
    plain, job = (make_task(labelled("p", name), cluster.vendors) for name in ("db", "job"))
    assert (part.applies(plain), part.applies(job), own.applies(job)) == (False, True, False)
    assert not SpreadScore(cluster).applies(job)


def test_kais_plugin_counts_a_million_times_and_leaves_pods_without_wishes_alone():
    cluster = zones(labelled("w", "web", on="b1"))
    session = Session(cluster, [*default_plugins(), PreferredPodAffinity()])
    wanted = make_task(labelled("p", "job", likes=[wish(1, term(ZONE, "web"))]), cluster.vendors)
    decision = session.decide(wanted)
    assert decision.node == "b1"
    assert decision.scores["b1"]["podaffinity"] == 100_000_000
    assert decision.scores["a1"]["podaffinity"] == 0
    plain = session.decide(make_task(labelled("p", "job"), cluster.vendors))
    assert {parts["podaffinity"] for parts in plain.scores.values()} == {0}


def test_scores_follow_what_is_placed():
    cluster = zones()
    session = Session(cluster, [PreferredPodAffinity()])
    group = [make_task(labelled(f"p{n}", "job", likes=[wish(1, term(HOST, "job"))]), cluster.vendors) for n in range(3)]
    assert [session.place(task).node for task in group] == ["a1", "a1", "a1"]
    apart = [
        make_task(labelled(f"q{n}", "db", dislikes=[wish(1, term(HOST, "db"))]), cluster.vendors) for n in range(2)
    ]
    assert [session.place(task).node for task in apart] == ["a1", "a2"]


@pytest.mark.parametrize("weight", [0, 101, -1])
def test_a_weight_out_of_range_keeps_the_pod_waiting(weight):
    decision = decide(zones(), labelled("p", likes=[wish(weight, term(HOST))]))
    assert reasons(decision) == {"InvalidPodAffinity": 4}
    assert f"weight {weight} is not from 1 to 100" in decision.rejected[0].message


# -- wished-for spread


def test_the_emptier_domain_is_better_and_nodes_without_the_label_get_nothing():
    cluster = zones(labelled("w", "web", on="a1"), labelled("v", "web", on="a2"), labelled("u", "web", on="b1"))
    # Two domains: ln 4 for each pod, so 3 against 1 after rounding; 100 × (3 + 1 - cost) / 3.
    found = scores(SpreadScore, cluster, labelled("p", spread=[soft(1, ZONE)]))
    assert found == {
        "a1": 33,
        "a2": 33,
        "b1": 100,
        "x": 0,
    }


def test_hosts_count_their_own_pods():
    cluster = zones(labelled("w", "web", on="a1"), labelled("v", "web", on="a1"))
    # Four nodes: 2 × ln 6 is 4 after rounding, the others 0.
    found = scores(SpreadScore, cluster, labelled("p", spread=[soft(1, HOST)]))
    assert found == {
        "a1": 0,
        "a2": 100,
        "b1": 100,
        "x": 100,
    }


def test_a_larger_skew_levels_the_differences():
    cluster = zones(labelled("w", "web", on="a1"))
    # 1 × ln 4 + 4 is 5 after rounding, without pods 4: 100 × (5 + 4 - cost) / 5.
    found = scores(SpreadScore, cluster, labelled("p", spread=[soft(5, ZONE)]))
    assert found == {
        "a1": 80,
        "a2": 80,
        "b1": 100,
        "x": 0,
    }


def test_without_any_such_pod_all_nodes_are_best():
    found = scores(SpreadScore, zones(), labelled("p", spread=[soft(1, ZONE)]))
    assert found == {
        "a1": 100,
        "a2": 100,
        "b1": 100,
        "x": 0,
    }


def test_pods_on_nodes_that_lack_a_label_of_another_constraint_do_not_count():
    cluster = scenario(zoned("a1", "a", rack="r"), zoned("a2", "a"), zoned("b1", "b", rack="r"), labelled("w", on="a2"))
    found = scores(SpreadScore, cluster, labelled("p", spread=[soft(1, ZONE), soft(1, "rack")]))
    assert found == {"a1": 100, "a2": 0, "b1": 100}


def test_a_part_counts_with_its_weight():
    cluster = zones(labelled("w", "web", on="a1"))

    class Weighted(PreferredPodAffinity):
        name = "weighted"

        def on_session_open(self, session):
            add_part(session, SpreadScore(session.cluster), 2.0)

    session = Session(cluster, [Weighted()])
    found = session.decide(make_task(labelled("p", spread=[soft(1, HOST)]), cluster.vendors))
    assert found.node == "a2"
    assert {name: parts["weighted"] for name, parts in found.scores.items()} == {
        "a2": 200,
        "b1": 200,
        "x": 200,
        "a1": 0,
    }
