"""Volcano's resource-strategy-fit: its arguments, its unit test vectors, and every rule of the score."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.scoring.resource_scores import Warnings, host, refused, scores, wants
from tests.properties.worlds import examples
from tests.scenario import scenario
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import ArgumentError
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring._strategyarguments import Strategy, StrategyArguments
from tonnage.plugins.scoring.resourcestrategyfit import TYPE_ANNOTATION, WEIGHT_ANNOTATION, ResourceStrategyFit

GPU, FOO = "nvidia.com/gpu", "example.com/foo"
LEAST, MOST = "LeastAllocated", "MostAllocated"


def fit(weight=10, **resources):
    """The plugin; each resource has a type and a weight."""
    named = {name.replace("__", ".com/"): Strategy(*value) for name, value in resources.items()}
    return ResourceStrategyFit(StrategyArguments(resource_strategy_fit_weight=weight, resources=named))


def used_host(cpu, memory, used=(200, 200)):
    """One node of that many milli CPUs and bytes, of which a pod uses some."""
    return scenario(host("n", cpu=cpu, memory=memory), wants("x", {"cpu": used[0], "memory": used[1]}, on="n"))


def own(kind, weights):
    return {TYPE_ANNOTATION: kind} | ({} if weights is None else {WEIGHT_ANNOTATION: weights})


# -- arguments


def test_everything_has_a_default():
    warned = Warnings()
    args = ResourceStrategyFit.read_arguments({}, warned)
    assert args.resource_strategy_fit_weight == 10
    assert args.resources == {"cpu": Strategy(LEAST, 1), "memory": Strategy(LEAST, 1)}
    assert not args.sra.enable
    assert not args.proportional.enable
    assert not warned


def test_what_is_written_is_what_is_read():
    given = {
        "resourceStrategyFitWeight": 3,
        "resources": {GPU: {"type": MOST, "weight": 2}, "cpu": {}, "example.com/*": {"type": MOST}},
        "sra": {"enable": True, "resources": f"{GPU}, {FOO}", "weight": 5, "resourceWeight": {FOO: 0}},
        "proportional": {"enable": True, "resources": GPU, "resourceProportion": {f"{GPU}.cpu": 0.5}},
    }
    warned = Warnings()
    plugin = ResourceStrategyFit(ResourceStrategyFit.read_arguments(given, warned))
    assert plugin.args.resources == {GPU: Strategy(MOST, 2), "cpu": Strategy(), "example.com/*": Strategy(MOST, 1)}
    assert plugin.args.sra.weights == {GPU: 1, FOO: 0}
    assert plugin.args.proportional.needed(GPU, "cpu") == 0.5
    assert plugin.args.proportional.needed(GPU, "memory") == 1
    assert not warned
    assert ResourceStrategyFit.read_arguments(plugin.written_arguments(), warned) == plugin.args
    assert not warned


@pytest.mark.parametrize(
    ("given", "key", "message", "meant"),
    [
        (
            {"resourceStrategyFitWeight": -1},
            "resourceStrategyFitWeight",
            "-1 is below 0; 10 is used, as in Volcano",
            10,
        ),
        ({"resourceStrategyFitWeight": 0}, "resourceStrategyFitWeight", "0 switches the scores by strategy off", 0),
        (
            {"resources": {"cpu": {"weight": 0}}},
            "resources.cpu.weight",
            "0 is not above 0; 1 is used, as in Volcano",
            1,
        ),
        ({"resources": {"cpu": {"weight": -4}}}, "resources.cpu.weight", "-4 is not above 0; 1 is used", 1),
        (
            {"resources": {"cpu": {"type": "MostAlocated"}}},
            "resources.cpu.type",
            "LeastAllocated is used, as in Volcano; did you mean MostAllocated?",
            LEAST,
        ),
        ({"resources": {"cpu": {"type": "?"}}}, "resources.cpu.type", "'?' is none of LeastAllocated, MostAl", LEAST),
        ({"resources": {}}, "resources", "is empty; cpu and memory are scored by LeastAllocated", None),
    ],
)
def test_where_volcano_falls_back_it_is_said(given, key, message, meant):
    warned = Warnings()
    args = ResourceStrategyFit.read_arguments(given, warned)
    assert list(warned) == [key]
    assert message in warned[key]
    found = args.resources["cpu"]
    assert meant in (None, args.resource_strategy_fit_weight, found.weight, found.type)
    ResourceStrategyFit(args)


@pytest.mark.parametrize("name", ["*", "*.com/gpu", "nvidia.com/*/x", "nvidia.com/**"])
def test_a_star_elsewhere_than_at_the_end_of_something_is_ignored(name):
    warned = Warnings()
    args = ResourceStrategyFit.read_arguments({"resources": {name: {"type": MOST}, "cpu": {}}}, warned)
    assert list(args.resources) == ["cpu"]
    assert warned[f"resources.{name}"].startswith("is ignored, as in Volcano")


def test_if_no_name_can_be_used_nothing_is_scored_and_that_is_said():
    warned = Warnings()
    args = ResourceStrategyFit.read_arguments({"resources": {"*": {}}}, warned)
    assert args.resources == {}
    assert warned["resources"] == "has no name that can be used, so that nothing is scored"
    assert scores(scenario(host("n", cpu=1000)), ResourceStrategyFit(args), wants("p", {"cpu": 100})) == {"n": 0}


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"weight": 1}, "", "unknown field `weight`"),
        ({"resourceStrategyFitWeight": "10"}, "resourceStrategyFitWeight", "Expected `int`, got `str`"),
        ({"resourceStrategyFitWeight": 10.0}, "resourceStrategyFitWeight", "got `float`"),
        ({"resourceStrategyFitWeight": True}, "resourceStrategyFitWeight", "got `bool`"),
        ({"resourceStrategyFitWeight": 2**63}, "resourceStrategyFitWeight", "does not fit into 64 bits"),
        ({"resources": []}, "resources", "Expected `object`, got `array`"),
        ({"resources": {"cpu": 1}}, "resources.cpu", "Expected `object`, got `int`"),
        ({"resources": {"cpu": None}}, "resources.cpu", "got `null`"),
        ({"resources": {"cpu": {"weight": "1"}}}, "resources.cpu.weight", "Expected `int`, got `str`"),
        ({"resources": {"x.io/y": {"type": 5}}}, "resources.x.io/y.type", "Expected `str`, got `int`"),
        ({"resources": {"cpu": {"tipe": MOST}}}, "resources.cpu.tipe", "which takes resources.cpu.type and resources."),
        ({"resources": {5: {}}}, "resources.5", "expects the name of a resource, not 5"),
        ({"sra": 1}, "sra", "Expected `object`, got `int`"),
        ({"sra": {"enabel": True}}, "sra", "unknown field `enabel`"),
        ({"sra": {"resources": [GPU]}}, "sra.resources", "Expected `str`, got `array`"),
    ],
)
def test_what_it_does_not_take_is_an_error(given, key, says):
    found, message = refused(ResourceStrategyFit, given)
    assert found == key
    assert says in message


def test_nonsense_is_refused_when_it_comes_from_python():
    with pytest.raises(ArgumentError, match=r"resources.cpu.type: 'Some' is none of"):
        fit(cpu=("Some", 1))
    with pytest.raises(ArgumentError, match=r"resources.cpu.weight: 0 is below 1"):
        fit(cpu=(MOST, 0))
    with pytest.raises(ArgumentError, match=r"resourceStrategyFitWeight: -1 is below 0"):
        fit(-1)


# -- Volcano's scores

REQUEST = {"cpu": 100, "memory": 100}


@pytest.mark.parametrize(
    ("plugin", "request_", "offers", "expected"),
    [
        (fit(cpu=(LEAST, 1), memory=(LEAST, 1)), REQUEST, (500, 500), 400),
        (fit(cpu=(LEAST, 1), memory=(LEAST, 1)), REQUEST, (400, 400), 250),
        (fit(cpu=(MOST, 1), memory=(MOST, 1)), REQUEST, (500, 500), 600),
        (fit(cpu=(MOST, 1), memory=(MOST, 1)), REQUEST, (400, 400), 750),
        (fit(cpu=(LEAST, 2), memory=(MOST, 1)), REQUEST, (500, 500), 1400 / 3),
        (fit(cpu=(LEAST, 1), memory=(MOST, 2)), REQUEST, (500, 500), 1600 / 3),
        (fit(cpu=(LEAST, 3), memory=(MOST, 1)), REQUEST, (500, 500), 450),
        (fit(cpu=(LEAST, 1), memory=(MOST, 2)), {"memory": 100}, (500, 500), 600),
        (fit(cpu=(LEAST, 1), memory=(MOST, 2)), REQUEST, (0, 400), 500),
        (fit(memory=(MOST, 2)), REQUEST, (500, 500), 600),
        (fit(20, cpu=(LEAST, 5), memory=(LEAST, 5)), REQUEST, (500, 500), 800),
        (fit(cpu=(LEAST, 1), memory=(LEAST, 1)), {}, (500, 500), 0),
    ],
)
def test_volcanos_score_vectors(plugin, request_, offers, expected):
    found = scores(used_host(*offers), plugin, wants("p", request_))
    assert found == {"n": pytest.approx(expected)}


@pytest.mark.parametrize("kind", [LEAST, MOST])
def test_a_full_node_scores_nothing(kind):
    cluster = used_host(500, 500, used=(500, 500))
    assert scores(cluster, fit(cpu=(kind, 1), memory=(kind, 1)), wants("p", REQUEST)) == {"n": 0}
    half = used_host(500, 500, used=(450, 0))
    assert scores(half, fit(cpu=(kind, 1), memory=(kind, 1)), wants("p", REQUEST)) == {"n": 0}


def test_volcanos_two_resources_pulling_both_ways():
    cluster = scenario(
        host("n1", cpu=4000, memory="4Gi", nvidia__gpu=10),
        host("n2", cpu=4000, memory="4Gi", nvidia__gpu=5),
        host("n3", cpu=4000, memory="4Gi", example__foo=10),
        host("n4", cpu=4000, memory="4Gi", example__foo=5),
    )
    plugin = fit(nvidia__gpu=(MOST, 1), example__foo=(LEAST, 1))
    found = {
        (name, amount): list(scores(cluster, plugin, wants("p", {"cpu": 1000, name: amount})).values())
        for name, amount in ((FOO, 2), (FOO, 3), (GPU, 2), (GPU, 3))
    }
    assert found == {
        (FOO, 2): [0, 0, 800, 600],
        (FOO, 3): [0, 0, 700, 400],
        (GPU, 2): [200, 400, 0, 0],
        (GPU, 3): [300, 600, 0, 0],
    }
    both = scenario(host("n5", nvidia__gpu=10, example__foo=5), host("n6", example__foo=10))
    plugin = fit(nvidia__gpu=(MOST, 1), example__foo=(LEAST, 2))
    found = scores(both, plugin, wants("p", {GPU: 4, FOO: 4}))
    assert found == {"n5": pytest.approx(800 / 3), "n6": pytest.approx(400)}


def test_volcanos_placement_packs_gpu_pods_and_spreads_the_others():
    gpu_nodes = [host(name, cpu=10000, memory="20Gi", nvidia__gpu=10) for name in ("n1", "n2")]
    cpu_nodes = [host(name, cpu=10000, memory="20Gi") for name in ("n3", "n4")]
    cluster = scenario(
        *gpu_nodes,
        *cpu_nodes,
        wants("g", {"cpu": 2000, GPU: 2}, on="n2"),
        *(wants(f"c{name}", {"cpu": 3000}, on=name) for name in ("n1", "n2", "n3")),
    )
    with Session(cluster, [fit(nvidia__gpu=(MOST, 2), cpu=(LEAST, 1))]) as session:
        assert session.place(make_task(wants("gpu", {"cpu": 1000, GPU: 2}), cluster.vendors)).node == "n2"
        assert session.place(make_task(wants("cpu", {"cpu": 1000}), cluster.vendors)).node == "n4"


# -- every rule


def test_the_exact_name_counts_first_then_the_longest_beginning():
    resources = {"x.io/*": (MOST, 1), "x.io/gpu-*": (LEAST, 1), "x.io/gpu-a": (MOST, 1)}
    named = {name: Strategy(*value) for name, value in resources.items()}
    plugin = ResourceStrategyFit(StrategyArguments(resources=named))
    offers = dict.fromkeys(("x.io/gpu-a", "x.io/gpu-b", "x.io/nic", "y.io/x"), 10)
    cluster = scenario(host("n", **offers))
    found = {name: scores(cluster, plugin, wants("p", {name: 2}))["n"] for name in offers}
    assert found == {"x.io/gpu-a": 200, "x.io/gpu-b": 800, "x.io/nic": 200, "y.io/x": 0}


def test_a_missing_resource_dilutes():
    cluster = scenario(host("has", cpu=4000, example__foo=4), host("lacks", cpu=4000))
    plugin = fit(1, cpu=(MOST, 1), example__foo=(MOST, 3))
    assert scores(cluster, plugin, wants("p", {"cpu": 4000, FOO: 4})) == {"has": 100, "lacks": 25}
    nowhere = scenario(host("lacks", cpu=4000))
    assert scores(nowhere, plugin, wants("p", {"cpu": 4000, FOO: 4})) == {"lacks": 25}


def test_an_amount_that_a_node_does_not_state_is_missing_there():
    cluster = scenario(host("a", cpu=4000), host("b", cpu=4000, memory=10))
    found = scores(cluster, fit(1, cpu=(LEAST, 1), memory=(LEAST, 1)), wants("p", {"cpu": 2000, "memory": 5}))
    assert found == {"a": 25, "b": 50}


def test_a_weight_of_zero_switches_the_scores_off():
    cluster = used_host(500, 500)
    with Session(cluster, [*default_plugins(), fit(0, example__foo=(MOST, 1))]) as session:
        decision = session.decide(make_task(wants("p", REQUEST), cluster.vendors))
        assert "resource-strategy-fit" not in decision.scores["n"]
        assert session.problems() == []


def test_a_strategy_for_what_no_node_offers_is_reported():
    cluster = used_host(500, 500)
    named = {name: Strategy() for name in ("cpu", "example.com/*", "mem*", FOO)}
    with Session(cluster, [ResourceStrategyFit(StrategyArguments(resources=named))]) as session:
        assert [(p.object, p.field) for p in session.problems()] == [
            ("Plugin/resource-strategy-fit", "resources.example.com/*"),
            ("Plugin/resource-strategy-fit", "resources.example.com/foo"),
        ]


# -- a pod's own strategy


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (own(LEAST, '{"cpu": 2, "memory": 1}'), 400),
        (own(MOST, '{"cpu": 1, "memory": 2}'), 600),
        (own(LEAST, '{"cpu": 2}'), 400),
        (own(LEAST, "invalid-json"), 0),
        (own(LEAST, None), 0),
        (own(MOST, "{}"), 0),
        (own(MOST, '{"cpu": 0}'), 0),
        (own(MOST, '{"cpu": -1}'), 0),
        (own(MOST, '["cpu"]'), 0),
        (own("Both", '{"cpu": 2}'), 400),
        ({WEIGHT_ANNOTATION: '{"cpu": 2}'}, 400),
    ],
)
def test_volcanos_vectors_of_a_pods_own_strategy(annotations, expected):
    plugin = fit(cpu=(LEAST, 1), memory=(LEAST, 1))
    assert scores(used_host(500, 500), plugin, wants("p", REQUEST, annotations=annotations)) == {
        "n": pytest.approx(expected)
    }


def test_a_pods_own_weights_count_for_what_the_configuration_does_not_name():
    cluster = scenario(host("n", cpu=1000, example__foo=4))
    wanted = wants("p", {"cpu": 500, FOO: 1}, annotations=own(MOST, '{"example.com/foo": 1}'))
    assert scores(cluster, fit(1, cpu=(LEAST, 1)), wanted) == {"n": 25}


def test_pods_with_different_annotations_are_told_apart():
    cluster = used_host(500, 500)
    with Session(cluster, [fit(cpu=(LEAST, 1))]) as session:
        found = [
            session.decide(make_task(wants("p", REQUEST, annotations=notes), cluster.vendors)).scores["n"]["total"]
            for notes in ({}, own(MOST, '{"cpu": 1}'), own(LEAST, '{"memory": 1}'), own(MOST, "?"), {})
        ]
        assert found == [400, 600, 400, 0, 400]


@pytest.mark.parametrize(
    ("annotations", "field", "says"),
    [
        (own("Both", '{"cpu": 2}'), TYPE_ANNOTATION, "'Both' is no scoring type; the strategies of the configuration"),
        (own(MOST, "nonsense"), WEIGHT_ANNOTATION, "'nonsense' cannot be read, so that every node scores 0"),
        (own(MOST, '{"cpu": -1}'), WEIGHT_ANNOTATION, "cannot be read"),
        (own(MOST, None), WEIGHT_ANNOTATION, "is missing, so that every node scores 0"),
        ({WEIGHT_ANNOTATION: '{"cpu": 2}'}, WEIGHT_ANNOTATION, f"has no effect without {TYPE_ANNOTATION}"),
    ],
)
def test_what_is_wrong_with_an_annotation_is_a_problem_of_the_pod(annotations, field, says):
    cluster = used_host(500, 500)
    with Session(cluster, [fit(cpu=(LEAST, 1))]) as session:
        session.decide(make_task(wants("p", REQUEST, annotations=annotations), cluster.vendors))
        (problem,) = session.problems()
        assert (problem.object, problem.field) == ("Pod/default/p", f"metadata.annotations[{field}]")
        assert says in problem.message


def test_good_annotations_are_no_problem():
    cluster = used_host(500, 500)
    with Session(cluster, [fit(cpu=(LEAST, 1))]) as session:
        session.decide(make_task(wants("p", REQUEST, annotations=own(MOST, '{"cpu": 2}')), cluster.vendors))
        assert session.problems() == []


# -- against a plain loop

NAMES = ["cpu", "memory", "pods", GPU, FOO, "x.io/a", "x.io/ab", "x.io/b"]
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 12), max_size=len(NAMES))
PATTERNS = [*NAMES, "x.io/*", "x.io/a*", "x*"]


def in_whole(amounts):
    return {name: f"{value}m" if name == "cpu" else value for name, value in amounts.items()}


def strategy_of(name, resources):
    if name in resources:
        return resources[name]
    fitting = [n for n in resources if n.endswith("*") and name.startswith(n[:-1])]
    return resources[sorted(fitting, key=len)[-1]] if fitting else None


def one_by_one(requests, used, offered, resources, weight):
    score, weight_sum = 0.0, 0
    for name, request in sorted(requests.items()):
        strategy = strategy_of(name, resources)
        if request == 0 or strategy is None:
            continue
        kind, share = strategy
        weight_sum += share
        if offered.get(name, 0) == 0:
            continue
        after = request + used.get(name, 0)
        if after > offered[name]:
            return 0.0
        score += (after if kind == MOST else offered[name] - after) * share / offered[name]
    return score / weight_sum * (100 * weight) if weight_sum else 0.0


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(AMOUNTS, st.lists(AMOUNTS, max_size=2)), min_size=1, max_size=6),
    st.lists(AMOUNTS, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(PATTERNS), st.tuples(st.sampled_from([LEAST, MOST]), st.integers(1, 9))),
    st.sampled_from([1, 3, 10]),
)
def test_over_arrays_it_is_the_same_as_node_by_node(hosts, wanted, resources, weight):
    used, objects = {}, []
    for number, (offers, held) in enumerate(hosts):
        name = f"n{number}"
        objects.append(host(name, **in_whole(offers)))
        objects += [wants(f"{name}-{i}", in_whole({**h, "pods": 0}), on=name) for i, h in enumerate(held)]
        used[name] = {key: sum({**h, "pods": 1}.get(key, 0) for h in held) for key in NAMES}
    cluster = scenario(*objects)
    named = {name: Strategy(*value) for name, value in resources.items()}
    plugin = ResourceStrategyFit(StrategyArguments(resource_strategy_fit_weight=weight, resources=named))
    with Session(cluster, [plugin]) as session:
        for number, requests in enumerate(wanted * 2):
            requests = {**requests, "pods": 1}
            task = make_task(wants(f"p{number}", in_whole(requests)), cluster.vendors)
            decision = session.place(task)
            found = {name: parts[plugin.name] for name, parts in decision.scores.items()}
            assert found == {
                f"n{i}": one_by_one(requests, used[f"n{i}"], offers, resources, weight)
                for i, (offers, _) in enumerate(hosts)
            }
            for key, value in requests.items():
                used[decision.node][key] = used[decision.node].get(key, 0) + value
