"""Volcano's binpack: its arguments, its unit test vectors, the seed's worked example, and every rule of the score."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.scoring.resource_scores import Warnings, host, refused, scores, wants
from tests.properties.worlds import examples
from tests.scenario import node, pod, running, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import ArgumentError
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring.binpack import Binpack

GPU, FOO = "nvidia.com/gpu", "example.com/foo"


def binpack(weight=1, cpu=1, memory=1, **resources):
    named = {name.replace("__", ".com/"): value for name, value in resources.items()}
    return Binpack(Binpack.Arguments(weight=weight, cpu=cpu, memory=memory, resources=named))


# -- arguments


def test_volcanos_argument_vector():
    warned = Warnings()
    args = Binpack.read_arguments(
        {
            "binpack.weight": 10,
            "binpack.cpu": 5,
            "binpack.memory": 2,
            "binpack.resources": "nvidia.com/gpu, example.com/foo",
            "binpack.resources.nvidia.com/gpu": 7,
            "binpack.resources.example.com/foo": -3,
        },
        warned,
    )
    assert args.weight == 10
    assert Binpack(args).weights == {GPU: 7, FOO: 1, "cpu": 5, "memory": 2}
    assert warned == {"binpack.resources.example.com/foo": "-3 is below 0; 1 is used, as in Volcano"}


def test_everything_has_a_default():
    warned = Warnings()
    args = Binpack.read_arguments({}, warned)
    assert args == Binpack.Arguments(weight=1, cpu=1, memory=1, resources={})
    assert Binpack.read_arguments({"binpack.resources": "a, b"}, warned).resources == {"a": 1, "b": 1}
    assert not warned


@pytest.mark.parametrize("text", ["a,b", " a , b ,", ",,a,,b", "a,b,a"])
def test_names_are_trimmed_and_empty_ones_dropped(text):
    assert Binpack.read_arguments({"binpack.resources": text}, Warnings()).resources == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"binpack.cpu": -1}, "binpack.cpu", "-1 is below 0; 1 is used, as in Volcano"),
        ({"binpack.memory": -5}, "binpack.memory", "-5 is below 0; 1 is used, as in Volcano"),
        ({"binpack.weight": -2}, "binpack.weight", "-2 is below 0, so that emptier nodes are preferred"),
        ({"binpack.weight": 0}, "binpack.weight", "0 switches the plugin off"),
        (
            {"binpack.cpu": 0, "binpack.memory": 0},
            "binpack.weight",
            "every resource has weight 0, so that the plugin scores nothing",
        ),
        (
            {"binpack.resources": "cpu", "binpack.resources.cpu": 9},
            "binpack.resources",
            "cpu has no effect here; its weight is binpack.cpu",
        ),
    ],
)
def test_a_value_that_is_not_what_it_seems_is_warned_about(given, key, message):
    warned = Warnings()
    args = Binpack.read_arguments(given, warned)
    assert warned == {key: message}
    assert Binpack(args).weights.keys() == {"cpu", "memory"}
    assert (args.cpu, args.memory) in ((1, 1), (0, 0))
    assert args.weight == given.get("binpack.weight", 1)


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"weight": 1}, "weight", "is no argument of binpack, which takes binpack.weight, "),
        ({"binpack.gpu": 1}, "binpack.gpu", "is no argument of binpack"),
        ({5: 1}, "5", "is no argument of binpack"),
        ({"binpack.resources.x.io/y": 1}, "binpack.resources.x.io/y", "'x.io/y' is not listed in binpack.resources"),
        ({"binpack.resources": "x.io/z", "binpack.resources.x.io/y": 1}, "binpack.resources.x.io/y", "is not listed"),
        ({"binpack.resources": "a", "binpack.resources.": 1}, "binpack.resources.", "'' is not listed"),
        ({"binpack.weight": "10"}, "binpack.weight", "expects an integer, not '10'"),
        ({"binpack.weight": ""}, "binpack.weight", "expects an integer, not ''"),
        ({"binpack.cpu": 10.0}, "binpack.cpu", "expects an integer, not 10.0"),
        ({"binpack.memory": True}, "binpack.memory", "expects an integer, not True"),
        ({"binpack.memory": None}, "binpack.memory", "expects an integer, not None"),
        ({"binpack.resources": "a", "binpack.resources.a": "b"}, "binpack.resources.a", "expects an integer, not 'b'"),
        ({"binpack.weight": 2**64}, "binpack.weight", "does not fit into 64 bits"),
        ({"binpack.resources": [GPU, FOO]}, "binpack.resources", f"a comma-separated string; write '{GPU}, {FOO}'"),
        ({"binpack.resources": []}, "binpack.resources", "expects a comma-separated string"),
        ({"binpack.resources": 7}, "binpack.resources", "expects a comma-separated string"),
    ],
)
def test_what_binpack_does_not_take_is_an_error(given, key, says):
    found, message = refused(Binpack, given)
    assert found == key
    assert says in message


def test_weights_below_zero_are_refused_when_they_come_from_python():
    with pytest.raises(ArgumentError, match=r"binpack.resources.example.com/foo: -1 is below 0"):
        binpack(example__foo=-1)


# -- scores

PODS = {
    "p1": wants("p1", {"cpu": 1000, "memory": "1Gi"}, on="n1"),
    "p2": wants("p2", {"cpu": 1500, "memory": "0"}, on="n3"),
    "p3": wants("p3", {"cpu": 2000, "memory": "10Gi", GPU: 2}),
    "p4": wants("p4", {"cpu": 3000, "memory": "4Gi", FOO: 3}),
}
NODES = [
    host("n1", cpu=2000, memory="4Gi"),
    host("n2", cpu=4000, memory="16Gi", nvidia__gpu=4),
    host("n3", cpu=2000, memory="4Gi", example__foo=16),
]
CASE_A = binpack(10, 2, 3, nvidia__gpu=7, example__foo=8)
CASE_B = binpack(1, 1, 1, nvidia__gpu=23)


@pytest.mark.parametrize(
    ("name", "plugin", "expected"),
    [
        ("p1", CASE_A, [700, 137.5, 0]),
        ("p2", CASE_A, [0, 375, 0]),
        ("p3", CASE_A, [0, 531.25, 0]),
        ("p4", CASE_A, [0, 2250 / 13, 0]),
        ("p1", CASE_B, [75, 15.625, 0]),
        ("p2", CASE_B, [0, 37.5, 0]),
        ("p3", CASE_B, [0, 50.5, 0]),
        ("p4", CASE_B, [0, 50, 0]),
    ],
)
def test_volcanos_score_vectors(name, plugin, expected):
    cluster = scenario(*NODES, PODS["p1"], PODS["p2"])
    found = scores(cluster, plugin, PODS[name])
    assert [found[n] for n in ("n1", "n2", "n3")] == pytest.approx(expected, abs=1e-8)


def worked_example():
    return scenario(
        *(host(f"node-{name}", cpu=8000, memory="16Gi") for name in "abc"),
        wants("xa", {"cpu": 6000, "memory": "4Gi"}, on="node-a"),
        wants("xb", {"cpu": 2000, "memory": "8Gi"}, on="node-b"),
        wants("xc", {"cpu": 4000, "memory": "10Gi"}, on="node-c"),
    )


@pytest.mark.parametrize(
    ("cpu", "memory", "expected", "best"),
    [(5, 1, [79.17, 41.67, 64.58], "node-a"), (1, 5, [45.83, 58.33, 72.92], "node-c")],
)
def test_the_seeds_worked_example(cpu, memory, expected, best):
    found = scores(worked_example(), binpack(1, cpu, memory), wants("p", {"cpu": 1000, "memory": "2Gi"}))
    assert [round(score, 2) for score in found.values()] == expected
    assert max(found, key=found.get) == best


def test_a_weighted_resource_that_overflows_makes_the_whole_node_score_nothing():
    cluster = scenario(host("n", cpu=4000, memory=1000))
    assert scores(cluster, binpack(), wants("p", {"cpu": 4000, "memory": 1000})) == {"n": 100}
    assert scores(cluster, binpack(), wants("p", {"cpu": 4000, "memory": 1001})) == {"n": 0}
    assert scores(cluster, binpack(memory=0), wants("p", {"cpu": 4000, "memory": 1001})) == {"n": 100}


def test_what_is_requested_without_a_weight_is_ignored_even_if_it_overflows():
    cluster = scenario(host("n", cpu=4000, example__foo=1))
    wanted = wants("p", {"cpu": 2000, FOO: 5})
    assert scores(cluster, binpack(), wanted) == {"n": 50}
    assert scores(cluster, binpack(example__foo=0), wanted) == {"n": 50}
    assert scores(cluster, binpack(example__foo=1), wanted) == {"n": 0}


def test_what_is_not_requested_is_ignored_however_much_is_in_use():
    cluster = scenario(host("n", cpu=4000, memory=100), wants("x", {"memory": 90}, on="n"))
    assert scores(cluster, binpack(memory=50), wants("p", {"cpu": 1000})) == {"n": 25}


def test_a_missing_resource_dilutes():
    cluster = scenario(host("has", cpu=4000, example__foo=4), host("lacks", cpu=4000))
    found = scores(cluster, binpack(example__foo=3), wants("p", {"cpu": 4000, FOO: 4}))
    assert found == {"has": 100, "lacks": 25}
    nowhere = scenario(host("lacks", cpu=4000))
    assert scores(nowhere, binpack(example__foo=3), wants("p", {"cpu": 4000, FOO: 4})) == {"lacks": 25}
    assert scores(nowhere, binpack(example__foo=3), wants("p", {FOO: 4})) == {"lacks": 0}


def test_an_amount_that_a_node_does_not_state_is_missing_there():
    cluster = scenario(host("a", cpu=4000), host("b", cpu=4000, nvidia__gpu=4))
    wanted = wants("p", {"cpu": 2000, GPU: 4})
    assert scores(cluster, binpack(nvidia__gpu=1), wanted) == {"a": 25, "b": 75}
    assert scores(cluster, binpack(), wants("p", {"cpu": 1000, "memory": 5})) == {"a": 12.5, "b": 12.5}


def test_pods_can_be_weighted():
    cluster = scenario(host("n", cpu=4000, pods=10), wants("x", {}, on="n"))
    assert scores(cluster, binpack(pods=1), wants("p", {"cpu": 4000})) == {"n": 60}


def test_without_anything_weighted_all_nodes_are_alike():
    cluster = scenario(host("n", cpu=4000))
    assert scores(cluster, binpack(), wants("p", {})) == {"n": 0}
    assert scores(cluster, binpack(cpu=0, memory=0), wants("p", {"cpu": 1000})) == {"n": 0}


def test_a_weight_below_zero_unpacks():
    found = scores(worked_example(), binpack(-1, 5, 1), wants("p", {"cpu": 1000, "memory": "2Gi"}))
    assert [round(score, 2) for score in found.values()] == [-79.17, -41.67, -64.58]
    none = scores(scenario(host("n", cpu=1000)), binpack(-1), wants("p", {"cpu": 2000}))
    assert str(none["n"]) == "0.0"


def test_a_weight_of_zero_switches_the_plugin_off():
    cluster = worked_example()
    with Session(cluster, [*default_plugins(), binpack(0, example__foo=1)]) as session:
        decision = session.decide(make_task(wants("p", {"cpu": 1000}), cluster.vendors))
        assert "binpack" not in decision.scores["node-a"]
        assert session.problems() == []


# -- in a session


def test_a_weighted_resource_that_no_node_offers_is_reported_once():
    cluster = worked_example()
    with Session(cluster, [binpack(example__foo=3, example__bar=0, nvidia__gpu=2)]) as session:
        for name in ("p", "q"):
            session.place(make_task(wants(name, {"cpu": 1000}), cluster.vendors))
        assert [(p.object, p.field) for p in session.problems()] == [
            ("Plugin/binpack", "binpack.resources.example.com/foo"),
            ("Plugin/binpack", "binpack.resources.nvidia.com/gpu"),
        ]
        assert session.problems()[0].message == (
            "no node offers example.com/foo; its weight 3 only lowers the score of pods that request it"
        )


def test_before_there_are_nodes_nothing_is_reported():
    cluster = scenario()
    with Session(cluster, [binpack(example__foo=3)]) as session:
        assert session.problems() == []
        cluster.upsert_node(host("n", cpu=1000, example__foo=3))
        session.decide(make_task(wants("p", {"cpu": 1000}), cluster.vendors))
        assert [p.field for p in session.problems()] == ["binpack.memory"]


def test_it_packs_beside_the_stock_plugins_and_shows_in_the_scores():
    offers = {"nvidia.com/gpu": 2, "cpu": 8, "memory": "16Gi"}
    cluster = scenario(
        node("a", gpus=2, **offers),
        node("b", gpus=2, **offers),
        node("c", gpus=2, **offers),
        running("x", on="b", gpu=0, memory=100),
        pod("y", on="c", cpu=6),
    )
    plugin = binpack(1, 1, 1, nvidia__gpu=10)
    with Session(cluster, [*default_plugins(node_policy="spread"), plugin]) as session:
        first = session.place(make_task(pod("p", 1, cpu=1, memory=50), cluster.vendors))
        assert first.node == "b"
        parts = first.scores["b"]
        assert parts["binpack"] == pytest.approx(100 * (10 * 2 / 2 + 1 / 8) / 11)
        assert parts["total"] == pytest.approx(parts["binpack"] + parts["nodepolicy"])
        second = session.place(make_task(pod("q", 1, cpu=1, memory=50), cluster.vendors))
        assert second.node == "c"
        assert second.scores["c"]["binpack"] == pytest.approx(100 * (10 * 1 / 2 + 7 / 8) / 11)


# -- against a plain loop

NAMES = ["cpu", "memory", "ephemeral-storage", "pods", GPU, FOO, "x.io/a", "x.io/b", "x.io/c", "x.io/d"]
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 12), max_size=len(NAMES))


def in_whole(amounts):
    """Processors in milli, so that every amount is the integer that the engine counts."""
    return {name: f"{value}m" if name == "cpu" else value for name, value in amounts.items()}


def one_by_one(requests, used, offered, weights, weight):
    score, weight_sum = 0.0, 0
    for name, request in sorted(requests.items()):
        if request == 0 or name not in weights:
            continue
        weight_sum += weights[name]
        if offered.get(name, 0) == 0 or weights[name] == 0:
            continue
        after = request + used.get(name, 0)
        if after > offered[name]:
            return 0.0
        score += after * weights[name] / offered[name]
    return score / weight_sum * (100 * weight) if weight_sum else 0.0


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(AMOUNTS, st.lists(AMOUNTS, max_size=2)), min_size=1, max_size=6),
    st.lists(AMOUNTS, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(NAMES[2:]), st.integers(0, 9)),
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 3, -2])),
)
def test_over_arrays_it_is_the_same_as_node_by_node(hosts, wanted, resources, rest):
    cpu, memory, weight = rest
    used = {}
    objects = []
    for number, (offers, held) in enumerate(hosts):
        name = f"n{number}"
        objects.append(host(name, **in_whole(offers)))
        objects += [wants(f"{name}-{i}", in_whole({**h, "pods": 0}), on=name) for i, h in enumerate(held)]
        used[name] = {key: sum({**h, "pods": 1}.get(key, 0) for h in held) for key in NAMES}
    cluster = scenario(*objects)
    plugin = Binpack(Binpack.Arguments(weight=weight, cpu=cpu, memory=memory, resources=resources))
    weights = {**resources, "cpu": cpu, "memory": memory}
    with Session(cluster, [plugin]) as session:
        for number, requests in enumerate(wanted * 2):
            requests = {**requests, "pods": 1}
            task = make_task(wants(f"p{number}", in_whole(requests)), cluster.vendors)
            decision = session.place(task)
            found = {name: parts["binpack"] for name, parts in decision.scores.items()}
            assert found == {
                f"n{i}": one_by_one(requests, used[f"n{i}"], offers, weights, weight)
                for i, (offers, _) in enumerate(hosts)
            }
            for key, value in requests.items():
                used[decision.node][key] = used[decision.node].get(key, 0) + value
