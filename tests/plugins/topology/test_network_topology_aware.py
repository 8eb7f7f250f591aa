"""Volcano's network-topology-aware: its arguments, its unit test vectors, and scores against a plain recount."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.scoring.resource_scores import Warnings, host, refused, scores, wants
from tests.plugins.topology.hypernodes import exact, hypernode, labelled
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import ArgumentError
from tonnage.framework.session import Session
from tonnage.plugins.filters.noderesources import NodeResources
from tonnage.plugins.topology._domainusage import DomainUsage
from tonnage.plugins.topology.networktopologyaware import ROOT, NetworkTopologyAware

GPU, FOO = "nvidia.com/gpu", "example.com/foo"
BINPACK = "hypernode.binpack"
EVICT = "hypernode.gradient.evict.max-hypernodes"


def aware(**given):
    return NetworkTopologyAware(NetworkTopologyAware.Arguments(**given))


def network(cluster, *hypernodes):
    for one in hypernodes:
        cluster.upsert_hypernode(one)
    return cluster


# -- arguments


def test_everything_has_a_default():
    warned = Warnings()
    args = NetworkTopologyAware.read_arguments({}, warned)
    assert args == NetworkTopologyAware.Arguments(weight=1, cpu=1, memory=1, resources={}, fading=0.8)
    assert args.normal_pods
    assert args.evict_max_hypernodes == 8
    assert not warned


def test_volcanos_argument_vector():
    given = {
        "weight": 2,
        f"{BINPACK}.cpu": 3,
        f"{BINPACK}.memory": 4,
        f"{BINPACK}.resources": f"{GPU}, {FOO}",
        f"{BINPACK}.resources.{FOO}": 6,
        f"{BINPACK}.normal-pod.enable": False,
        f"{BINPACK}.normal-pod.fading": 0,
    }
    warned = Warnings()
    args = NetworkTopologyAware.read_arguments(given, warned)
    plugin = NetworkTopologyAware(args)
    assert args.weight == 2
    assert plugin.weights == {GPU: 1, FOO: 6, "cpu": 3, "memory": 4}
    assert (args.normal_pods, args.fading) == (False, 0)
    assert not warned
    assert NetworkTopologyAware.read_arguments(plugin.written_arguments(), {}.__setitem__) == args


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"weight": -1}, "weight", "-1 is below 0; 1 is used, as in Volcano"),
        ({"weight": 0}, "weight", "0 switches the plugin off"),
        ({f"{BINPACK}.cpu": -1}, f"{BINPACK}.cpu", "-1 is below 0; 1 is used, as in Volcano"),
        ({f"{BINPACK}.cpu": 0, f"{BINPACK}.memory": 0}, "weight", "every resource has weight 0"),
        ({f"{BINPACK}.normal-pod.fading": -0.5}, f"{BINPACK}.normal-pod.fading", "-0.5 is below 0; 0.8 is used"),
        ({EVICT: 0}, EVICT, "has no effect here yet"),
        ({f"{BINPACK}.resources": "cpu"}, f"{BINPACK}.resources", f"its weight is {BINPACK}.cpu"),
    ],
)
def test_where_volcano_falls_back_it_is_said(given, key, message):
    warned = Warnings()
    args = NetworkTopologyAware.read_arguments(given, warned)
    assert list(warned) == [key]
    assert message in warned[key]
    assert (args.cpu, args.memory) in ((1, 1), (0, 0))
    assert (args.fading, args.evict_max_hypernodes) == (0.8, 8)
    NetworkTopologyAware(args)


@pytest.mark.parametrize(("written", "meant"), [("true", True), ("false", False), (True, True), (False, False)])
def test_the_switch_may_stand_in_quotes(written, meant):
    args = NetworkTopologyAware.read_arguments({f"{BINPACK}.normal-pod.enable": written}, Warnings())
    assert args.normal_pods is meant


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"wieght": 1}, "wieght", "is no argument of network-topology-aware, which takes weight, "),
        ({f"{BINPACK}.gpu": 1}, f"{BINPACK}.gpu", "is no argument"),
        (
            {f"{BINPACK}.resources.{GPU}": 1},
            f"{BINPACK}.resources.{GPU}",
            "is not listed in hypernode.bin",
        ),
        ({"weight": "1"}, "weight", "expects an integer, not '1'"),
        ({"weight": 1.0}, "weight", "expects an integer, not 1.0"),
        ({f"{BINPACK}.resources": [GPU]}, f"{BINPACK}.resources", "expects a comma-separated string"),
        ({f"{BINPACK}.normal-pod.enable": 1}, f"{BINPACK}.normal-pod.enable", "expects true or false, not 1"),
        ({f"{BINPACK}.normal-pod.fading": "1"}, f"{BINPACK}.normal-pod.fading", "expects a number, not '1'"),
        ({f"{BINPACK}.normal-pod.fading": float("nan")}, f"{BINPACK}.normal-pod.fading", "expects a number"),
        ({f"{BINPACK}.normal-pod.fading": True}, f"{BINPACK}.normal-pod.fading", "expects a number"),
        ({EVICT: "8"}, EVICT, "expects an integer"),
    ],
)
def test_what_it_does_not_take_is_an_error(given, key, says):
    found, message = refused(NetworkTopologyAware, given)
    assert found == key
    assert says in message


def test_nonsense_is_refused_when_it_comes_from_python():
    with pytest.raises(ArgumentError, match=r"hypernode.binpack.resources.example.com/foo: -1 is below 0"):
        aware(resources={FOO: -1})
    with pytest.raises(ArgumentError, match="fading: expects a number, not inf"):
        aware(fading=float("inf"))


# -- HyperNodes for a job as a whole

SIZES = {"s3": (2000, "4G", 4), "s4": (4000, "4G", 4), "s5": (2000, "8G", 8), "s6": (4000, "8G", 8)}
"""What each of the two nodes of a HyperNode has."""


def volcanos_network():
    """Seven HyperNodes of three tiers over eight nodes."""
    cluster = scenario(
        *(
            host(f"{name}-n{i}", cpu=cpu, memory=memory, example__foo=foo)
            for name, (cpu, memory, foo) in SIZES.items()
            for i in (1, 2)
        )
    )
    leaves = [hypernode(name, 1, f"{name}-n1", f"{name}-n2") for name in SIZES]
    above = [hypernode("s1", 2, "s3", "s4"), hypernode("s2", 2, "s5", "s6"), hypernode("s0", 3, "s1", "s2")]
    return network(cluster, *leaves, *above)


def job_scores(cluster, plugin, *pods, among=None):
    with Session(cluster, [plugin]):
        return plugin.hypernode_scores([make_task(one, cluster.vendors) for one in pods], among)


def test_volcanos_vectors_of_hypernodes_for_a_job():
    pods = [wants(f"p{i}", {"cpu": 4000, "memory": "4G"}) for i in (1, 2)]
    found = job_scores(volcanos_network(), aware(), *pods)
    expected = {"s0": 25, "s1": 175 / 3, "s2": 137.5 / 3, "s3": 0, "s4": 100, "s5": 0, "s6": 75, ROOT: 25}
    assert found == pytest.approx(expected)


def test_volcanos_vectors_of_hypernodes_with_weights():
    pods = [wants(f"p{i}", {"cpu": 4000, "memory": "4G", FOO: 8}) for i in (1, 2)]
    plugin = aware(weight=10, cpu=3, memory=4, resources={FOO: 3})
    found = job_scores(volcanos_network(), plugin, *pods)
    expected = {"s0": 800 / 3, "s1": 700, "s2": 450, "s3": 0, "s4": 0, "s5": 0, "s6": 800, ROOT: 800 / 3}
    assert found == pytest.approx(expected)


def test_among_equals_the_one_that_holds_more_of_the_job_is_better():
    cluster = network(
        scenario(*(host(name, cpu=4000, memory=100) for name in ("a1", "a2", "b1", "b2"))),
        hypernode("a", 1, "a1", "a2"),
        hypernode("b", 1, "b1", "b2"),
    )
    first = wants("p1", {"cpu": 1000}, on="b1")
    cluster.upsert_pod(first)
    cluster.upsert_pod(wants("x", {"cpu": 1000}, on="a1"))
    pods = [first, *(wants(f"p{i}", {"cpu": 1000}) for i in (2, 3, 4))]
    found = job_scores(cluster, aware(), *pods, among=["a", "b"])
    assert found == {"a": 62.5, "b": 62.5 + 25}
    assert job_scores(cluster, aware(), *pods)[ROOT] == 37.5
    assert job_scores(cluster, aware(), *pods, among=["b", "gone"]) == {"b": 62.5}
    assert job_scores(cluster, aware(), *pods, among=[]) == {}


def test_an_empty_hypernode_is_no_use():
    cluster = network(scenario(host("n", cpu=4000)), hypernode("empty", 1))
    assert job_scores(cluster, aware(), wants("p", {"cpu": 1000})) == {"empty": 0, ROOT: 25}


def test_without_hypernodes_there_is_nothing_to_score():
    assert job_scores(scenario(host("n", cpu=1000)), aware(), wants("p", {"cpu": 1})) == {}


# -- nodes for a normal pod


def two_racks(**weights):
    cluster = scenario(*(host(name, cpu=4000, memory=100) for name in ("a1", "a2", "b1", "b2", "out")))
    return network(cluster, hypernode("a", 1, "a1", "a2"), hypernode("b", 1, "b1", "b2"))


def test_a_pod_goes_to_the_fuller_part_of_the_network():
    cluster = two_racks()
    cluster.remove_node("out")
    cluster.upsert_pod(wants("x", {"cpu": 4000}, on="b1"))
    with Session(cluster, [NodeResources(), aware()]) as session:
        decision = session.place(make_task(wants("p", {"cpu": 2000}), cluster.vendors))
        assert decision.node == "b2"
        assert decision.scores["b2"]["total"] > decision.scores["a1"]["total"] == decision.scores["a2"]["total"]


def test_tiers_count_less_the_higher_they_are_and_nodes_outside_come_first():
    found = scores(two_racks(), aware(), wants("p", {"cpu": 2000}))
    rack, everything = 2000 / 8000, 2000 / 20000
    inside = 100 * (rack + 0.8 * everything) / 1.8
    outside = 100 * (1 + 0.8 * everything) / 1.8
    assert found == pytest.approx({"a1": inside, "a2": inside, "b1": inside, "b2": inside, "out": outside})


def test_without_fading_up_only_the_lowest_tier_counts():
    found = scores(two_racks(), aware(fading=0, weight=3), wants("p", {"cpu": 2000}))
    assert found == {"a1": 75, "a2": 75, "b1": 75, "b2": 75, "out": 300}


def test_tiers_that_nobody_is_of_count_as_full():
    cluster = network(
        scenario(host("a", cpu=1000), host("b", cpu=1000)), hypernode("t1", 1, "a"), hypernode("t3", 3, exact("b"))
    )
    found = scores(cluster, aware(fading=0.5), wants("p", {"cpu": 500}))
    # Tiers 1 to 4 count 1, 0.5, 0.25 and 0.125; the last is the one above all, which is a quarter full.
    a, b = 0.5 + 0.5 + 0.25 + 0.125 / 4, 1 + 0.5 + 0.25 / 2 + 0.125 / 4
    assert found == pytest.approx({"a": 100 * a / 1.875, "b": 100 * b / 1.875})


@pytest.mark.parametrize("fading", [0, 0.5, 1, 2, 1e300])
@pytest.mark.parametrize("tier", [1, 2, 2**31 - 1])
def test_no_tier_and_no_fading_is_too_much(fading, tier):
    cluster = network(scenario(host("a", cpu=1000), host("b", cpu=1000)), hypernode("low", 0, exact("a")))
    network(cluster, hypernode("high", tier, exact("a"), exact("b")))
    found = scores(cluster, aware(fading=fading), wants("p", {"cpu": 500}))
    assert all(0 <= score <= 100 for score in found.values())
    assert found["b"] >= found["a"]


def test_what_overflows_a_part_of_the_network_scores_nothing_there():
    cluster = two_racks()
    cluster.upsert_pod(wants("x", {"cpu": 4000}, on="a1"))
    cluster.upsert_pod(wants("y", {"cpu": 3000}, on="a2"))
    found = scores(cluster, aware(fading=0), wants("p", {"cpu": 2000}))
    assert (found["a1"], found["b1"]) == (0, 25)


def test_a_resource_that_no_node_knows_makes_everything_inside_full_and_is_reported():
    cluster = two_racks()
    with Session(cluster, [aware(fading=0, resources={FOO: 2})]) as session:
        decision = session.decide(make_task(wants("p", {"cpu": 1000, FOO: 1}), cluster.vendors))
        assert {name: parts["total"] for name, parts in decision.scores.items()} == {
            "out": 100,
            **dict.fromkeys(("a1", "a2", "b1", "b2"), 0),
        }
        assert [problem.field for problem in session.problems()] == [f"{BINPACK}.resources.{FOO}"]


def test_a_node_in_two_hypernodes_of_a_tier_counts_with_the_first_by_name():
    cluster = two_racks()
    network(cluster, hypernode("0", 1, "a1"))
    found = scores(cluster, aware(fading=0), wants("p", {"cpu": 2000}))
    assert (found["a1"], found["a2"]) == (50, 25)


def test_what_a_node_does_not_state_counts_nothing_for_its_part():
    cluster = network(scenario(host("a", cpu=4000), host("b", cpu=4000, nvidia__gpu=4)), hypernode("h", 1, "a", "b"))
    wanted = wants("p", {"cpu": 2000, GPU: 1})
    assert scores(cluster, aware(fading=0, resources={GPU: 1}), wanted)["a"] == 25
    cluster.upsert_pod(wants("x", {GPU: 2}, on="a"))
    assert scores(cluster, aware(fading=0, resources={GPU: 1}), wanted)["a"] == 25


def test_without_hypernodes_nothing_is_scored_and_that_is_said():
    cluster = scenario(host("a", cpu=1000))
    with Session(cluster, [aware()]) as session:
        decision = session.decide(make_task(wants("p", {"cpu": 500}), cluster.vendors))
        assert decision.scores["a"]["total"] == 0
        assert [(p.object, p.field) for p in session.problems()] == [("Plugin/network-topology-aware", "hypernodes")]


@pytest.mark.parametrize(
    ("plugin", "registered"),
    [
        (aware(weight=0), []),
        (aware(normal_pods=False), [(NetworkTopologyAware.name, name) for name in ("node sets", "subgroup node sets")]),
    ],
)
def test_switched_off_it_scores_no_nodes(plugin, registered):
    with Session(two_racks(), [plugin]) as session:
        assert session.registered == registered


def test_changes_of_the_network_are_seen_within_a_session():
    cluster = scenario(*(node(name, labels={"rack": name[0]}, cpu=4) for name in ("a1", "a2", "b1", "b2")))
    network(cluster, hypernode("a", 1, labelled(rack="a")))
    with Session(cluster, [aware(fading=0)]) as session:

        def found():
            decision = session.decide(make_task(pod("p", cpu=2), cluster.vendors))
            return {name: round(parts["total"], 2) for name, parts in sorted(decision.scores.items())}

        assert found() == {"a1": 25, "a2": 25, "b1": 100, "b2": 100}
        network(cluster, hypernode("b", 1, labelled(rack="b")))
        assert found() == {"a1": 25, "a2": 25, "b1": 25, "b2": 25}
        cluster.upsert_node(node("b1", labels={"rack": "a"}, cpu=4))
        assert found() == {"a1": 16.67, "a2": 16.67, "b1": 16.67, "b2": 50}
        cluster.remove_hypernode("b")
        cluster.remove_node("a1")
        cluster.upsert_node(node("a0", labels={"rack": "c"}, cpu=4))
        assert found() == {"a0": 100, "a2": 25, "b1": 25, "b2": 100}


# -- against a plain recount


def recounted(cluster: Cluster, used, offers, requests, weights, fading):
    """Scores of all nodes, node by node and HyperNode by HyperNode."""
    inside = {name: sorted(nodes) for name, nodes in cluster.topology.membership().nodes.items()} | {
        ROOT: sorted(offers)
    }
    tiers = {name: one.spec.tier for name, one in cluster.hypernodes.items()}
    tiers[ROOT] = max(tiers.values()) + 1

    def share(name):
        total, weight_sum = 0.0, 0
        for resource, request in sorted(requests.items()):
            if not request or resource not in weights:
                continue
            have = sum(offers[n].get(resource, 0) for n in inside[name])
            after = request + sum(used[n].get(resource, 0) for n in inside[name] if resource in offers[n])
            if after > have:
                return 0.0
            total += weights[resource] * after / have
            weight_sum += weights[resource]
        return total / weight_sum if weight_sum else 0.0

    shares = {name: share(name) for name in inside}
    result = {}
    for one in offers:
        total = weight_sum = 0.0
        for tier in range(min(tiers.values()), tiers[ROOT] + 1):
            around = [name for name in sorted(inside) if tiers[name] == tier and one in inside[name]]
            counts = fading ** (tier - min(tiers.values()))
            total += counts * (shares[around[0]] if around else 1.0)
            weight_sum += counts
        result[one] = 100 * total / weight_sum
    return result


AMOUNTS = st.fixed_dictionaries({"cpu": st.integers(0, 8), "memory": st.integers(0, 8), FOO: st.integers(0, 3)})


@settings(max_examples=examples(100))
@given(
    st.lists(AMOUNTS, min_size=1, max_size=7),
    st.lists(
        st.tuples(st.integers(1, 4), st.sets(st.integers(0, 6)), st.sets(st.integers(0, 3))), min_size=1, max_size=5
    ),
    st.lists(st.tuples(AMOUNTS, st.integers(0, 6)), max_size=6),
    st.lists(AMOUNTS, min_size=1, max_size=3),
    st.sampled_from([0, 0.5, 0.8, 1, 2]),
    st.fixed_dictionaries({"cpu": st.integers(0, 3), "memory": st.integers(0, 3), FOO: st.integers(0, 3)}),
)
def test_over_arrays_it_is_the_same_as_one_by_one(hosts, groups, held, wanted, fading, weights):
    offers = {f"n{i}": amounts for i, amounts in enumerate(hosts)}
    cluster = scenario(*(host(name, **{**amounts, "cpu": f"{amounts['cpu']}m"}) for name, amounts in offers.items()))
    for i, (tier, nodes, below) in enumerate(groups):
        members = [exact(f"n{n}") for n in nodes] + [exact(f"h{b}", "HyperNode") for b in below if b < i]
        cluster.upsert_hypernode(hypernode(f"h{i}", tier, *members))
    used = {name: {} for name in offers}

    def hold(amounts, name):
        for key, value in amounts.items():
            used[name][key] = used[name].get(key, 0) + value

    def asking(amounts):
        return {**amounts, "cpu": f"{amounts['cpu']}m"}

    for i, (amounts, place) in enumerate(held):
        name = f"n{place % len(offers)}"
        cluster.upsert_pod(wants(f"x{i}", asking(amounts), on=name))
        hold(amounts, name)
    plugin = aware(fading=fading, cpu=weights["cpu"], memory=weights["memory"], resources={FOO: weights[FOO]})
    with Session(cluster, [plugin]) as session:
        for number, amounts in enumerate(wanted * 2):
            decision = session.place(make_task(wants(f"p{number}", asking(amounts)), cluster.vendors))
            found = {name: parts["total"] for name, parts in decision.scores.items()}
            assert found == pytest.approx(recounted(cluster, used, offers, amounts, weights, fading))
            hold(amounts, decision.node)


def test_sums_stay_right_however_many_nodes_change_at_once():
    names = [f"n{i:03}" for i in range(100)]
    cluster = scenario(*(host(name, cpu=8000) for name in names))
    domains = DomainUsage(cluster, {"even": names[::2], "odd": names[1::2], "none": [], "all": [*names, "gone"]})

    def cpu(sums):
        return dict(zip(domains.names, sums[cluster.columns.resources["cpu"]].tolist(), strict=True))

    assert cpu(domains.offered) == {"even": 400_000, "odd": 400_000, "none": 0, "all": 800_000}
    assert cpu(domains.used) == {"even": 0, "odd": 0, "none": 0, "all": 0}
    for name in names[:60]:
        cluster.upsert_pod(wants(f"p-{name}", {"cpu": 1000}, on=name))
    assert cpu(domains.used) == {"even": 30_000, "odd": 30_000, "none": 0, "all": 60_000}
    for name in names[:5]:
        cluster.remove_pod(f"default/p-{name}")
    cluster.upsert_node(host("n001", cpu=9000))
    assert cpu(domains.used) == {"even": 27_000, "odd": 28_000, "none": 0, "all": 55_000}
    assert cpu(domains.offered) == {"even": 400_000, "odd": 401_000, "none": 0, "all": 801_000}
