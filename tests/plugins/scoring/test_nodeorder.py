"""Volcano's nodeorder: arguments, unit test vectors of both peers part by part, and a plain loop to compare with."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.plugins.scoring.resource_scores import Warnings, host, refused, scores, wants
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.cluster.columns import FEW
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import ArgumentError
from tonnage.framework.session import Session
from tonnage.model.node import NodeImage
from tonnage.model.pod import Container
from tonnage.model.selection import (
    Affinity,
    Expression,
    LabelSelector,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PreferredTerm,
    SelectorTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring.nodeorder import GPU, NodeOrder

MIB = 2**20
GIB = 2**30
PARTS = (
    "least_requested",
    "most_requested",
    "balanced_resource",
    "node_affinity",
    "pod_affinity",
    "taint_toleration",
    "image_locality",
    "pod_topology_spread",
)


def order(**weights):
    """The plugin with these parts only."""
    return NodeOrder(NodeOrder.Arguments(**{part: weights.get(part, 0) for part in PARTS}))


def asks(cpu, memory, **more):
    return {"cpu": cpu, "memory": memory, **more}


def found(cluster, plugin, wanted):
    return list(scores(cluster, plugin, wanted).values())


# -- resources


def test_volcanos_vector_of_least_and_most_requested():
    cluster = scenario(host("n1", cpu=2000, memory=4 * GIB), host("n2", cpu=4000, memory=8 * GIB))
    for part, best in (("least_requested", "n2"), ("most_requested", "n1")):
        with Session(cluster, [order(**{part: 1})]) as session:
            assert session.decide(make_task(wants("p", asks(1000, 1)), cluster.vendors)).node == best


def test_volcanos_vector_of_balanced_resources():
    cluster = scenario(host("n1", cpu=2000, memory=2 * GIB), host("n2", cpu=4000, memory=2 * GIB))
    assert found(cluster, order(balanced_resource=10), wants("p", asks(1000, GIB))) == [750, 680]


def two(first, second, *existing):
    pods = [wants(f"x{i}", held, on=name) for i, (name, held) in enumerate(existing)]
    return scenario(host("n1", **first), host("n2", **second), *pods)


POD = wants("p", asks(1000, 2000), asks(2000, 3000))
GPUS = asks(3500, 40000, nvidia__gpu=8)


@pytest.mark.parametrize(
    ("cluster", "wanted", "expected"),
    [
        (two(asks(4000, 10000), asks(6000, 10000)), POD, [68, 75]),
        (
            two(asks(10000, 20000), asks(10000, 20000), ("n1", asks(3000, 0)), ("n2", asks(3000, 5000))),
            POD,
            [73, 74],
        ),
        (
            two(asks(10000, 20000), asks(10000, 50000), ("n1", asks(3000, 0)), ("n2", asks(3000, 5000))),
            POD,
            [73, 70],
        ),
        (two(asks(6000, 10000), asks(6000, 10000), ("n1", asks(6000, 0))), wants("p", asks(0, 10000)), [100, 50]),
        (two(asks(6000, 10000), asks(6000, 10000)), wants("p", asks(3000, 0)), [62, 62]),
        (
            two(GPUS, GPUS, ("n1", asks(3000, 5000, nvidia__gpu=3)), ("n2", asks(3000, 5000))),
            wants("p", {"nvidia__gpu": 1}),
            [75, 76],
        ),
        (two(GPUS, GPUS), wants("p", asks(3000, 5000)), [56, 56]),
        (two(GPUS, GPUS, ("n1", asks(3000, 0))), wants("p", {}), [0, 0]),
    ],
)
def test_kubernetes_vectors_of_balanced_allocation(cluster, wanted, expected):
    assert found(cluster, order(balanced_resource=1), wanted) == expected


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (order(least_requested=1), [37, 50]),
        (order(most_requested=1), [62, 50]),
        (order(least_requested=2, most_requested=3, balanced_resource=5), [74 + 186 + 340, 100 + 150 + 375]),
        (order(least_requested=-1), [-37, -50]),
    ],
)
def test_parts_are_added_up_with_their_weights(plugin, expected):
    assert found(two(asks(4000, 10000), asks(6000, 10000)), plugin, POD) == expected


def test_containers_that_say_nothing_count_something_for_least_and_most_but_not_for_balance():
    cluster = scenario(host("n", cpu=250, memory=1000 * MIB), wants("x", {}, {}, on="n"))
    assert found(cluster, order(most_requested=1), wants("p", {})) == [80]
    assert found(cluster, order(least_requested=1), wants("p", {})) == [20]
    assert found(cluster, order(balanced_resource=1), wants("p", asks(0, 0))) == [0]


def test_a_resource_that_a_node_does_not_state_is_left_out_there():
    cluster = scenario(host("n1", cpu=1000), host("n2", cpu=1000, memory=1000, nvidia__gpu=4), host("n3"))
    wanted = wants("p", asks(500, 0, nvidia__gpu=4))
    assert found(cluster, order(least_requested=1), wanted) == [50, 75, 0]
    assert found(cluster, order(balanced_resource=1), wanted) == [75, 54, 75]


# -- preferred node affinity


def prefers(*terms, name="p"):
    """A pod that prefers labels (key, value) by their weights."""
    made = [
        PreferredTerm(weight, SelectorTerm([Expression(key, "In", [value])] if key else None))
        for weight, key, value in terms
    ]
    affinity = Affinity(NodeAffinity(preferredDuringSchedulingIgnoredDuringExecution=made))
    return pod(name, cpu=1, affinity=affinity)


ZONES = [node("a", labels={"zone": "1", "disk": "ssd"}), node("b", labels={"zone": "1"}), node("c")]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], [0, 0, 0]),
        ([(5, "zone", "1")], [200, 200, 0]),
        ([(5, "zone", "1"), (3, "disk", "ssd")], [200, 2 * 62, 0]),
        ([(5, "zone", "1"), (0, "disk", "ssd")], [200, 200, 0]),
        ([(5, "zone", "2")], [0, 0, 0]),
        ([(5, "", ""), (1, "disk", "ssd")], [200, 0, 0]),
        ([(101, "zone", "1"), (1, "disk", "ssd")], [200, 0, 0]),
    ],
)
def test_the_weights_of_the_terms_that_a_node_meets_count_as_a_share_of_the_highest(terms, expected):
    assert found(scenario(*ZONES), order(node_affinity=2), prefers(*terms)) == expected


def test_the_highest_is_looked_for_among_the_nodes_that_the_pod_fits_on():
    full = node("a", labels={"zone": "1", "disk": "ssd"}, cpu="1m")
    cluster = scenario(full, *ZONES[1:])
    with Session(cluster, [*default_plugins(), order(node_affinity=1)]) as session:
        wanted = make_task(prefers((1, "zone", "1"), (3, "disk", "ssd")), cluster.vendors)
        assert session.decide(wanted).scores["b"]["nodeorder"] == 100
        cluster.upsert_node(ZONES[0])
        decision = session.decide(wanted)
        assert (decision.scores["a"]["nodeorder"], decision.scores["b"]["nodeorder"]) == (100, 25)


def test_a_preferred_term_without_meaning_counts_nothing_and_that_is_said():
    cluster = scenario(*ZONES)
    bad = PreferredTerm(3, SelectorTerm([Expression("zone", "Near", ["1"])]))
    good = PreferredTerm(1, SelectorTerm(matchFields=[Expression("metadata.name", "In", ["c"])]))
    affinity = Affinity(NodeAffinity(preferredDuringSchedulingIgnoredDuringExecution=[bad, good]))
    with Session(cluster, [order(node_affinity=1)]) as session:
        decision = session.decide(make_task(pod("p", affinity=affinity), cluster.vendors))
        assert decision.node == "c"
        (problem,) = session.problems()
    assert problem.object == "Pod/default/p"
    assert problem.field.endswith("preferredDuringSchedulingIgnoredDuringExecution[0]")
    assert "Near" in problem.message


# -- taints


def tainted(*keys, effect="PreferNoSchedule"):
    return [Taint(key, effect) for key in keys]


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([[], [], []], [], [300, 300, 300]),
        ([tainted("a"), [], tainted("a", "b")], [], [150, 300, 0]),
        ([tainted("a"), [], tainted("a", "b")], [Toleration("a", "Exists")], [300, 300, 0]),
        ([tainted("a"), [], tainted("a", "b")], [Toleration("a", "Exists", effect="NoSchedule")], [150, 300, 0]),
        ([tainted("a", "b", "c"), tainted("a"), tainted("a", "b")], [], [0, 201, 102]),
        ([tainted("a"), [], tainted("a", "b")], [Toleration(operator="Exists")], [300, 300, 300]),
        ([tainted("a", effect="NoSchedule"), [], []], [], [300, 300, 300]),
    ],
)
def test_nodes_with_fewer_taints_that_the_pod_had_better_avoid_score_higher(taints, tolerations, expected):
    cluster = scenario(*(node(name, taints=one) for name, one in zip("abc", taints, strict=True)))
    assert found(cluster, order(taint_toleration=3), pod("p", tolerations=tolerations)) == expected


def test_taints_that_come_and_go_are_noticed():
    cluster = scenario(node("a"), node("b"))
    with Session(cluster, [order(taint_toleration=1)]) as session:

        def now():
            decision = session.decide(make_task(pod("p"), cluster.vendors))
            return [parts["nodeorder"] for _, parts in sorted(decision.scores.items())]

        assert now() == [100, 100]
        cluster.upsert_node(node("a", taints=tainted("x")))
        assert now() == [0, 100]
        cluster.upsert_node(node("b", taints=tainted("x", "y")))
        assert now() == [50, 0]
        cluster.upsert_node(node("a"))
        assert now() == [100, 0]
        cluster.upsert_node(node("b"))
        assert now() == [100, 100]


# -- images


def stocked(name, **images):
    """A node that has images of these sizes in MiB."""
    made = [NodeImage([f"reg.io/{image}:v1", f"reg.io/{image}@sha256:1"], size * MIB) for image, size in images.items()]
    plain = node(name)
    return replace(plain, status=replace(plain.status, images=made))


def pulls(*images, init=()):
    return pod(
        "p",
        containers=[Container(f"c{i}", image=image) for i, image in enumerate(images)],
        init=[Container(f"i{i}", image=image) for i, image in enumerate(init)],
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        # 40 MiB on one of two nodes is 20 MiB, which is below 23; 250 MiB is 125 MiB, of 2000 MiB for two containers.
        (pulls("reg.io/small:v1", "reg.io/large:v1"), [0, 100 * (125 - 23) // (2000 - 23)]),
        # 40 and 300 MiB on one node are 170 MiB together.
        (pulls("reg.io/small:v1", "reg.io/other:v1"), [100 * (170 - 23) // (2000 - 23), 0]),
        # More than 1000 MiB is no better.
        (pulls("reg.io/huge:v1"), [0, 100]),
        (pulls("reg.io/huge@sha256:1"), [0, 100]),
        # An image on all nodes counts in full.
        (pulls("reg.io/both:v1"), [100 * (500 - 23) // (1000 - 23)] * 2),
        (pulls("reg.io/both:v1", init=["reg.io/large:v1"]), [100 * (500 - 23) // 1977, 100 * (625 - 23) // 1977]),
        (pulls("reg.io/both"), [0, 0]),
        (pulls("reg.io/unknown:v1"), [0, 0]),
    ],
)
def test_nodes_with_more_of_the_pods_images_score_higher(wanted, expected):
    cluster = scenario(
        stocked("n1", small=40, other=300, both=500), stocked("n2", large=250, huge=4000, both=500), wants("x", {})
    )
    assert found(cluster, order(image_locality=1), wanted) == expected
    assert found(cluster, order(image_locality=3), wanted) == [3 * score for score in expected]


def test_an_image_without_a_tag_is_the_latest_one():
    plain = node("n")
    image = NodeImage(["reg.io:5000/tool:latest"], 1000 * MIB)
    cluster = scenario(replace(plain, status=replace(plain.status, images=[image])))
    assert found(cluster, order(image_locality=1), pulls("reg.io:5000/tool")) == [100]


def test_when_more_nodes_have_an_image_it_counts_more_on_all_of_them():
    cluster = scenario(stocked("a", tool=500), node("b"), node("c"))
    with Session(cluster, [order(image_locality=1)]) as session:

        def now():
            decision = session.decide(make_task(pulls("reg.io/tool:v1"), cluster.vendors))
            return [parts["nodeorder"] for _, parts in sorted(decision.scores.items())]

        third, two_thirds, half = (
            100 * (int(500 * MIB * part) - 23 * MIB) // (977 * MIB) for part in (1 / 3, 2 / 3, 1 / 2)
        )
        assert now() == [third, 0, 0]
        cluster.upsert_node(stocked("c", tool=500))
        assert now() == [two_thirds, 0, two_thirds]
        cluster.upsert_node(stocked("c", tool=200))
        assert now()[0] == two_thirds
        cluster.remove_node("b")
        cluster.upsert_node(node("c"))
        assert now() == [half, 0]
        cluster.upsert_node(node("a"))
        assert now() == [0, 0]
    assert cluster.rows.images.spread == {}


# -- other pods


def test_pods_that_the_pod_wants_near_and_its_like_count_with_their_weights():
    labels = {"app": "web"}
    there = replace(wants("x", {}, on="b"), metadata=replace(wants("x").metadata, labels=labels))
    nodes = [node(name, labels={"kubernetes.io/hostname": name}) for name in "ab"]
    cluster = scenario(*nodes, there)
    selector = LabelSelector(matchLabels=labels)
    near = WeightedPodAffinityTerm(10, PodAffinityTerm("kubernetes.io/hostname", selector))
    wanted = pod(
        "p", affinity=Affinity(podAffinity=PodAffinity(preferredDuringSchedulingIgnoredDuringExecution=[near]))
    )
    assert found(cluster, order(pod_affinity=2), wanted) == [0, 200]
    spread = TopologySpreadConstraint(1, "kubernetes.io/hostname", "ScheduleAnyway", selector)
    plain = pod("p")
    wanted = replace(
        plain,
        metadata=replace(plain.metadata, labels=labels),
        spec=replace(plain.spec, topologySpreadConstraints=[spread]),
    )
    apart = found(cluster, order(pod_topology_spread=2), wanted)
    assert apart[0] == 200 > apart[1]


# -- arguments


def test_volcanos_defaults():
    assert NodeOrder().written_arguments() == {
        "leastrequested.weight": 1,
        "mostrequested.weight": 0,
        "balancedresource.weight": 1,
        "nodeaffinity.weight": 2,
        "podaffinity.weight": 2,
        "tainttoleration.weight": 3,
        "imagelocality.weight": 1,
        "podtopologyspread.weight": 2,
    }


def test_volcanos_keys_are_read():
    warned = Warnings()
    args = NodeOrder.read_arguments({"leastrequested.weight": 0, "mostrequested.weight": 5}, warned)
    assert (args.least_requested, args.most_requested, args.balanced_resource) == (0, 5, 1)
    assert not warned


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"leastrequested": 1}, "", "unknown field `leastrequested`"),
        ({"leastrequested.weight": "1"}, "leastrequested.weight", "Expected `int`"),
        ({"nodeaffinity.weight": 1.5}, "nodeaffinity.weight", "Expected `int`"),
        ({"podaffinity.weight": True}, "podaffinity.weight", "Expected `int`"),
        ({"imagelocality.weight": 2**31}, "imagelocality.weight", "expects a weight up to 2147483647"),
    ],
)
def test_what_is_no_weight_is_an_error(given, key, says):
    found_key, message = refused(NodeOrder, given)
    assert found_key == key
    assert says in message


def test_a_weight_that_does_not_do_what_one_might_think_is_warned_about():
    warned = Warnings()
    NodeOrder.read_arguments({"tainttoleration.weight": -3}, warned)
    assert "below 0" in warned["tainttoleration.weight"]
    warned = Warnings()
    NodeOrder.read_arguments(dict.fromkeys(NodeOrder().written_arguments(), 0), warned)
    assert "scores nothing" in warned["leastrequested.weight"]
    with pytest.raises(ArgumentError):
        order(most_requested=2**40)


# -- against a plain loop, for few nodes and for many

NAMES = ["cpu", "memory", GPU]
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9) | st.sampled_from([100, 2**30, 2**52]))


def evenness(used, offered):
    shares = [min(used.get(name, 0) / size, 1.0) for name, size in offered]
    if len(shares) < 2:
        return 100
    if len(shares) == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * 100)
    mean = sum(shares) / 3
    return int((1 - math.sqrt(sum((share - mean) ** 2 for share in shares) / 3)) * 100)


def added(*all_amounts):
    return {name: sum(amounts.get(name, 0) for amounts in all_amounts) for name in NAMES}


def one_by_one(wanted, held, offers, weights):
    least, most, balanced = weights
    defaults = {"cpu": 100, "memory": 200 * MIB}
    counted = added(*({**defaults, **amounts} for amounts in (wanted, *held)))
    percents = [
        (max(size - counted[name], 0) * 100 // size, min(counted[name], size) * 100 // size)
        for name in NAMES[:2]
        if (size := offers.get(name, 0))
    ]
    free, full = (sum(part) // len(percents) for part in zip(*percents, strict=True)) if percents else (0, 0)
    total = free * least + full * most
    if any(wanted.values()):
        used, names = added(*held), NAMES if wanted.get(GPU) else NAMES[:2]
        there = [(name, offers[name]) for name in names if offers.get(name)]
        after = evenness(added(used, wanted), there)
        total += (50 + (50 + after - evenness(used, there)) // 2) * balanced
    return total


@settings(max_examples=examples(120))
@given(
    st.lists(st.tuples(AMOUNTS, st.lists(AMOUNTS, max_size=2)), min_size=1, max_size=2 + FEW),
    st.lists(AMOUNTS, min_size=1, max_size=3),
    st.tuples(*[st.integers(-1, 3)] * 3),
)
def test_over_arrays_and_one_by_one_it_is_the_same_as_a_plain_loop(hosts, wanted, weights):
    objects, held = [], []
    for number, (offers, pods) in enumerate(hosts):
        objects.append(host(f"n{number}", **offers))
        objects += [wants(f"n{number}-{i}", one, on=f"n{number}") for i, one in enumerate(pods)]
        held.append(list(pods))
    cluster = scenario(*objects)
    names = ("least_requested", "most_requested", "balanced_resource")
    with Session(cluster, [order(**dict(zip(names, weights, strict=True)))]) as session:
        for number, amounts in enumerate(wanted * 3):
            decision = session.place(make_task(wants(f"p{number}", amounts), cluster.vendors))
            expected = {f"n{i}": one_by_one(amounts, held[i], offers, weights) for i, (offers, _) in enumerate(hosts)}
            if any(weights):
                assert {name: parts["nodeorder"] for name, parts in decision.scores.items()} == {
                    name: expected[name] for name in decision.scores
                }
            held[int(decision.node[1:])].append(amounts)
