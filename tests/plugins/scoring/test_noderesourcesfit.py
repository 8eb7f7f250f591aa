"""Kubernetes' scoring strategies: arguments, unit test vectors, non-zero requests, and a plain loop to compare with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.plugins.scoring.resource_scores import Warnings, host, refused, scores, wants
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import ArgumentError
from tonnage.framework.session import Session
from tonnage.model.pod import Container, ResourceRequirements
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring._fitarguments import (
    CPU_AND_MEMORY,
    FitArguments,
    Ratio,
    ScoredResource,
    ScoringStrategy,
    ShapePoint,
)
from tonnage.plugins.scoring._resourcescores import broken_line, least_allocated, most_allocated, shape_table
from tonnage.plugins.scoring.noderesourcesfit import NodeResourcesFit

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
XYZ = "abc.com/xyz"
FALLING, RISING = ((0, 10), (100, 0)), ((0, 0), (100, 10))
MIB = 2**20


def fit(kind=LEAST, *, shape=None, weight=1, **resources):
    named = [ScoredResource(name.replace("__", ".com/"), value) for name, value in resources.items()]
    ratio = Ratio(tuple(ShapePoint(*point) for point in shape)) if shape else None
    strategy = ScoringStrategy(kind, tuple(named) or CPU_AND_MEMORY, ratio)
    return NodeResourcesFit(FitArguments(scoring_strategy=strategy, weight=weight))


def asks(cpu, memory, **more):
    return {"cpu": cpu, "memory": memory, **more}


def two(first, second, *existing):
    """Two nodes, and what one pod each holds there."""
    pods = [wants(f"x{i}", held, on=name) for i, (name, held) in enumerate(existing)]
    return scenario(host("n1", **first), host("n2", **second), *pods)


BIG, WIDE = asks(4000, 10000), asks(6000, 10000)
ROOMY = asks(10000, 20000)
EMPTY = wants("p", asks(0, 0))
POD = wants("p", asks(1000, 2000), asks(2000, 3000))


@pytest.mark.parametrize(
    ("plugin", "cluster", "wanted", "expected"),
    [
        (fit(MOST), two(BIG, BIG), EMPTY, [0, 0]),
        (fit(MOST), two(BIG, WIDE), POD, [62, 50]),
        (fit(MOST), two(ROOMY, ROOMY, ("n1", asks(6000, 0)), ("n2", asks(6000, 5000))), EMPTY, [30, 42]),
        (fit(MOST, memory=2, cpu=1), two(BIG, WIDE), POD, [58, 50]),
        (fit(MOST, cpu=1, memory=1, abc__xyz=1), two(WIDE, asks(6000, 10000, abc__xyz=4)), POD, [50, 50]),
        (fit(LEAST), two(BIG, BIG), EMPTY, [100, 100]),
        (fit(LEAST), two(BIG, WIDE), POD, [37, 50]),
        (fit(LEAST), two(ROOMY, ROOMY, ("n1", asks(3000, 0)), ("n2", asks(3000, 5000))), POD, [57, 45]),
        (
            fit(LEAST),
            two(ROOMY, asks(10000, 50000), ("n1", asks(3000, 0)), ("n2", asks(3000, 5000))),
            POD,
            [57, 60],
        ),
        (fit(LEAST), two(asks(0, 0), asks(0, 0)), EMPTY, [0, 0]),
        (fit(LEAST, memory=2, cpu=1), two(BIG, WIDE), POD, [41, 50]),
        (fit(LEAST, cpu=1, memory=1, abc__xyz=1), two(WIDE, asks(6000, 10000, abc__xyz=4)), POD, [50, 50]),
        (
            fit(LEAST, cpu=1, memory=1, abc__xyz=1),
            two(asks(6000, 10000, abc__xyz=4), asks(6000, 10000, abc__xyz=10)),
            wants("p", asks(3000, 5000, abc__xyz=2)),
            [50, 60],
        ),
        (
            fit(LEAST, cpu=1, memory=1, abc__xyz=1),
            two(WIDE, WIDE),
            wants("p", asks(3000, 4000, abc__xyz=2)),
            [55, 55],
        ),
        (fit(RATIO, shape=FALLING), two(BIG, BIG, ("n1", asks(0, 0)), ("n1", asks(0, 0))), EMPTY, [100, 100]),
        (fit(RATIO, shape=FALLING), two(BIG, WIDE, ("n1", asks(0, 0)), ("n1", asks(0, 0))), POD, [38, 50]),
        (
            fit(RATIO, shape=FALLING),
            two(BIG, WIDE, ("n1", asks(3000, 5000)), ("n2", asks(3000, 5000))),
            EMPTY,
            [38, 50],
        ),
    ],
)
def test_kubernetes_score_vectors(plugin, cluster, wanted, expected):
    assert list(scores(cluster, plugin, wanted).values()) == expected


@pytest.mark.parametrize(
    ("kind", "requested", "capacity", "expected"),
    [
        (least_allocated, [[6000, 6000], [0, 5000]], [[10000, 10000], [20000, 20000]], [70, 57]),
        (least_allocated, [[6000, 6000], [0, 5000]], [[4000, 4000], [10000, 10000]], [50, 25]),
        (most_allocated, [[6000, 6000], [0, 5000]], [[10000, 10000], [20000, 20000]], [30, 42]),
        (most_allocated, [[6000, 6000], [0, 5000]], [[4000, 0], [10000, 0]], [50, 0]),
    ],
)
def test_vectors_in_which_a_pod_asks_for_none_of_something(kind, requested, capacity, expected):
    found = kind(np.array(requested), np.array(capacity), np.array([[1], [1]]))
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("plugin", "wanted", "expected"),
    [
        (fit(RATIO, shape=FALLING), asks(3000, 5000), [10, 32]),
        (fit(RATIO, shape=RISING), asks(3000, 5000), [95, 68]),
        (fit(MOST), asks(1000, 2000), [67, 36]),
        (fit(LEAST), asks(1000, 2000), [32, 63]),
    ],
)
def test_kubernetes_fit_score_vectors(plugin, wanted, expected):
    cluster = two(BIG, WIDE, ("n1", asks(2000, 4000)), ("n2", asks(1000, 2000)))
    assert list(scores(cluster, plugin, wants("p", wanted)).values()) == expected


@pytest.mark.parametrize(
    ("resources", "asked", "expected"),
    [
        ({"intel__foo": 1}, {}, [0, 0]),
        ({"intel__foo": 1}, {"intel__foo": 2}, [2, 5]),
        ({"intel__foo": 1}, {"intel__foo": 4}, [5, 10]),
        ({"intel__foo": 3, "intel__bar": 5}, {}, [0, 0]),
        ({"intel__foo": 3, "intel__bar": 5}, {"intel__foo": 2, "intel__bar": 2}, [4, 3]),
        ({"intel__foo": 3, "intel__bar": 5}, {"intel__foo": 4, "intel__bar": 2}, [5, 5]),
    ],
)
def test_kubernetes_vectors_of_extended_resources(resources, asked, expected):
    cluster = scenario(
        host("n1", cpu=4000, memory=10000, intel__foo=8, intel__bar=4),
        host("n2", cpu=4000, memory=10000, intel__foo=4, intel__bar=8),
        wants("x", on="n1"),
    )
    plugin = fit(RATIO, shape=((0, 0), (100, 1)), **resources)
    assert list(scores(cluster, plugin, wants("p", asked)).values()) == expected


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (
            ((10, 1), (90, 9)),
            {-10: 1, 0: 1, 9: 1, 10: 1, 15: 1, 19: 1, 20: 2, 89: 8, 90: 9, 99: 9, 100: 9, 110: 9},
        ),
        (((0, 2), (40, 10), (100, 0)), {-10: 2, 0: 2, 20: 6, 30: 8, 40: 10, 70: 5, 100: 0, 110: 0}),
        (((0, 2), (40, 2), (100, 2)), {-10: 2, 0: 2, 20: 2, 30: 2, 40: 2, 70: 2, 100: 2, 110: 2}),
    ],
)
def test_kubernetes_broken_line_vectors(points, expected):
    assert {at: broken_line(points, at) for at in expected} == expected


def test_a_falling_line_is_cut_off_towards_zero():
    assert broken_line(FALLING, 75) == 3
    assert shape_table(FALLING)[[0, 1, 75, 100]].tolist() == [100, 99, 25, 0]
    assert shape_table(((0, 10), (3, 0)))[:4].tolist() == [100, 67, 34, 0]
    assert shape_table(((30, 3),)).tolist() == [30] * 101


# -- containers that say nothing


def test_containers_that_say_nothing_count_something():
    cluster = scenario(
        host("n1", cpu=250, memory="1000Mi"),
        host("n2", cpu=250, memory="1000Mi"),
        wants("x", {}, on="n1"),
        wants("y", {}, on="n1"),
    )
    assert list(scores(cluster, fit(MOST), wants("p", {})).values()) == [80, 30]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (wants("p", {}), (100, 200 * MIB)),
        (wants("p"), (0, 0)),
        (wants("p", asks(0, 0)), (0, 0)),
        (wants("p", {"cpu": 500}), (0, 200 * MIB)),
        (wants("p", {"cpu": 500}, {"memory": 1}), (100, 200 * MIB)),
        (wants("p", {}, {}), (200, 400 * MIB)),
        (pod("p", cpu=1), (0, 200 * MIB)),
        (wants("p", asks(500, 1), init=({},)), (0, 200 * MIB - 1)),
        (wants("p", asks(50, 1), init=(asks(0, 0), {})), (50, 200 * MIB - 1)),
        (wants("p", {"cpu": "-1"}), (0, 200 * MIB)),
    ],
)
def test_what_containers_that_say_nothing_add(wanted, expected):
    assert make_task(wanted, scenario().vendors).unstated == expected


def test_what_pods_that_say_nothing_count_goes_when_they_go():
    cluster = scenario(host("n1", cpu=1000), host("n2", cpu=1000))
    with Session(cluster, [fit(MOST, cpu=1)]) as session:

        def found():
            decision = session.decide(make_task(wants("p", {}), cluster.vendors))
            return [parts["noderesourcesfit"] for _, parts in sorted(decision.scores.items())]

        assert found() == [10, 10]
        session.place(make_task(wants("q", {}), cluster.vendors))
        assert found() == [20, 10]
        cluster.upsert_pod(wants("r", {"memory": 5}, on="n2"))
        assert found() == [20, 20]
        cluster.upsert_node(host("n0", cpu=1000))
        assert found() == [10, 20, 20]
        cluster.remove_pod("default/r")
        session.unplace("default/q")
        assert found() == [10, 10, 10]


def test_what_a_pod_counts_is_the_same_before_and_after_it_is_placed():
    """Containers that say nothing, an explicit 0, init containers and sidecars: exactly as Kubernetes counts them."""
    one, side = {"cpu": 100, "memory": 50 * MIB}, Container("side", restartPolicy="Always")
    init, loud = Container("init"), Container("loud", ResourceRequirements({"cpu": "700m", "memory": 1}))
    for wanted, cpu, memory in (
        (wants("p", {}, {}), 200, 400 * MIB),
        (wants("p", asks(0, 0), {}), 100, 200 * MIB),
        (wants("p", one, {"cpu": 0}), 100, 250 * MIB),
        (wants("p", one, init=({},)), 100, 200 * MIB),
        (with_init(wants("p", one), side), 200, 250 * MIB),
        (with_init(wants("p", one), side, init), 200, 400 * MIB),
        (with_init(wants("p", one), init, side, loud), 800, 250 * MIB),
    ):
        cluster = scenario(host("n", cpu=1000, memory=1000 * MIB), wants("x", {"cpu": 1, "memory": MIB}, on="n"))
        with Session(cluster, [fit(MOST, cpu=1, memory=1)]) as session:
            before = session.place(make_task(wanted, cluster.vendors)).scores["n"]["noderesourcesfit"]
        after = scores(cluster, fit(MOST), EMPTY)["n"]
        cpu_share, memory_share = min(cpu + 1, 1000) // 10, (memory + MIB) // (10 * MIB)
        assert before == after == (cpu_share + memory_share) // 2
        cluster.release("default/p")
        assert scores(cluster, fit(MOST), EMPTY)["n"] == 0
        cluster.upsert_pod(replace(wanted, spec=replace(wanted.spec, nodeName="n")))
        assert scores(cluster, fit(MOST), EMPTY)["n"] == after


def with_init(wanted, *init):
    return replace(wanted, spec=replace(wanted.spec, initContainers=list(init)))


def test_pods_that_differ_only_in_what_they_leave_unsaid_are_told_apart():
    cluster = scenario(host("n", cpu=1000))
    with Session(cluster, [fit(MOST, cpu=1)]) as session:
        for wanted, score in ((wants("p", {"cpu": 100}), 10), (wants("q", {"cpu": 100}, {}), 20)):
            decision = session.decide(make_task(wanted, cluster.vendors))
            assert decision.scores["n"]["noderesourcesfit"] == score


# -- which resources count


def test_processors_and_memory_count_for_pods_that_ask_for_none():
    cluster = two(BIG, BIG, ("n1", asks(2000, 0)), ("n2", asks(0, 5000)))
    assert list(scores(cluster, fit(MOST, cpu=3, memory=1), EMPTY).values()) == [37, 12]


def test_an_amount_that_a_node_does_not_state_is_left_out_there():
    cluster = scenario(host("n1", cpu=1000), host("n2", cpu=1000, nvidia__gpu=4), host("n3"))
    wanted = wants("p", asks(500, 0, nvidia__gpu=4))
    assert list(scores(cluster, fit(MOST, cpu=1, memory=9, nvidia__gpu=1), wanted).values()) == [50, 75, 0]


def test_storage_counts_and_pods_do_not():
    cluster = scenario(host("n", cpu=1000, pods=4, **{"ephemeral-storage": 100}))
    strategy = ScoringStrategy(MOST, (ScoredResource("ephemeral-storage"), ScoredResource("pods")))
    plugin = NodeResourcesFit(FitArguments(scoring_strategy=strategy))
    assert scores(cluster, plugin, wants("p", {"ephemeral-storage": 30})) == {"n": 30}


def test_the_weight_multiplies():
    assert list(scores(two(BIG, WIDE), fit(MOST, weight=3), POD).values()) == [186, 150]


def test_it_scores_beside_the_stock_plugins():
    cluster = scenario(node("a", gpus=1, cpu=8), node("b", gpus=1, cpu=4))
    for kind, best in ((MOST, "b"), (LEAST, "a")):
        with Session(cluster, [*default_plugins(), fit(kind, cpu=1)]) as session:
            decision = session.decide(make_task(pod("p", 1, cpu=2), cluster.vendors))
        assert decision.node == best
        assert decision.scores["b"]["noderesourcesfit"] == 50
        assert decision.scores["b"]["total"] == 50 + decision.scores["b"]["nodepolicy"]


# -- arguments


def test_a_whole_document_of_kubernetes():
    warned = Warnings()
    args = NodeResourcesFit.read_arguments(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourcesFitArgs",
            "scoringStrategy": {
                "type": RATIO,
                "resources": [{"name": "intel.com/foo", "weight": 3}, {"name": "cpu"}],
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            },
        },
        warned,
    )
    ratio = Ratio((ShapePoint(0, 0), ShapePoint(100, 10)))
    resources = (ScoredResource("intel.com/foo", 3), ScoredResource("cpu", 1))
    assert args == FitArguments(scoring_strategy=ScoringStrategy(RATIO, resources, ratio))
    assert not warned


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"scoringStrategy": None},
        {"scoringStrategy": {"type": LEAST}},
        {"scoringStrategy": {"type": LEAST, "resources": []}},
        {"scoringStrategy": {"type": LEAST, "resources": None, "requestedToCapacityRatio": None}},
    ],
)
def test_without_arguments_it_is_least_allocated_of_processors_and_memory(given):
    warned = Warnings()
    assert NodeResourcesFit.read_arguments(given, warned) == FitArguments()
    assert FitArguments().scoring_strategy == ScoringStrategy(
        LEAST, (ScoredResource("cpu", 1), ScoredResource("memory", 1))
    )
    assert not warned


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"ignoredResources": ["a.io/b"]}, "ignoredResources", "has no effect on scores"),
        ({"ignoredResourceGroups": ["a.io"]}, "ignoredResourceGroups", "has no effect on scores"),
        ({"weight": 0}, "weight", "0 means the default, 1"),
        (
            {"scoringStrategy": {"type": MOST, "resources": [{"name": "cpu", "weight": 0}]}},
            "scoringStrategy.resources[0].weight",
            "0 means the default, 1",
        ),
        (
            {"scoringStrategy": {"type": MOST, "resources": [{"name": "pods"}]}},
            "scoringStrategy.resources[0].name",
            "pods has no effect: as in Kubernetes, MostAllocated does not score it",
        ),
        (
            {"scoringStrategy": {"type": MOST, "resources": [{"name": "cpu"}, {"name": "cpu"}]}},
            "scoringStrategy.resources[1].name",
            "cpu is listed before; both weights count",
        ),
    ],
)
def test_a_value_that_is_not_what_it_seems_is_warned_about(given, key, says):
    warned = Warnings()
    args = NodeResourcesFit.read_arguments(given, warned)
    assert list(warned) == [key]
    assert says in warned[key]
    assert args.weight == 1
    assert {resource.weight for resource in args.scoring_strategy.resources} == {1}


def strategy(**more):
    return {"scoringStrategy": {"type": MOST, **more}}


def shaped(*points):
    shape = [{"utilization": at, "score": score} for at, score in points]
    return strategy(type=RATIO, requestedToCapacityRatio={"shape": shape})


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"scoringStrategie": {}}, "", "unknown field `scoringStrategie`"),
        ({"weight": "1"}, "weight", "Expected `int`"),
        ({"weight": -1}, "weight", "expects a weight from 1 to"),
        ({"weight": 2**70}, "weight", "expects a weight from 1 to"),
        ({"kind": "NodeAffinityArgs"}, "kind", "expects NodeResourcesFitArgs"),
        ({"apiVersion": "v1"}, "apiVersion", "expects a version of kubescheduler.config.k8s.io, not 'v1'"),
        ({"ignoredResources": "a"}, "ignoredResources", "Expected `array`"),
        ({"scoringStrategy": []}, "scoringStrategy", "Expected `object`"),
        ({"scoringStrategy": {}}, "scoringStrategy", "missing required field `type`"),
        (strategy(type="BestFit"), "scoringStrategy.type", "Invalid enum value 'BestFit'"),
        (strategy(resource=[]), "scoringStrategy", "unknown field `resource`"),
        (strategy(resources=[{"weight": 1}]), "scoringStrategy.resources[0]", "missing required field `name`"),
        (strategy(resources=[{"name": "a", "w": 1}]), "scoringStrategy.resources[0]", "unknown field `w`"),
        (strategy(resources=[{"name": "a/b", "weight": 1.0}]), "scoringStrategy.resources[0].weight", "Expected `int`"),
        (strategy(resources=[{"name": "cpu", "weight": -1}]), "scoringStrategy.resources[0].weight", "not -1"),
        (
            strategy(resources=[{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 101}]),
            "scoringStrategy.resources[1].weight",
            "expects a weight from 1 to 100, not 101",
        ),
        (
            strategy(requestedToCapacityRatio={"shape": [{"utilization": 0, "score": 0}]}),
            "scoringStrategy.requestedToCapacityRatio",
            "goes with the type RequestedToCapacityRatio only, not with MostAllocated",
        ),
        (strategy(type=RATIO), SHAPE, "at least one point is needed"),
        (shaped(), SHAPE, "at least one point is needed"),
        (shaped((-1, 3)), f"{SHAPE}[0].utilization", "not -1"),
        (shaped((30, 3), (101, 3)), f"{SHAPE}[1].utilization", "not 101"),
        (shaped((10, 3), (10, 3)), f"{SHAPE}[1].utilization", "10 is not above the point before"),
        (shaped((10, 3), (20, 3), (15, 3)), f"{SHAPE}[2].utilization", "15 is not above the point before"),
        (shaped((10, 1), (15, 2), (20, 3), (19, 4), (25, 5)), f"{SHAPE}[3].utilization", "19 is not above"),
        (shaped((10, 1), (20, 2), (20, 3)), f"{SHAPE}[2].utilization", "20 is not above"),
        (shaped((10, -1)), f"{SHAPE}[0].score", "not -1"),
        (shaped((10, 11)), f"{SHAPE}[0].score", "expects a score from 0 to 10, not 11"),
    ],
)
def test_what_kubernetes_does_not_take_is_an_error(given, key, says):
    found, message = refused(NodeResourcesFit, given)
    assert found == key
    assert says in message


@pytest.mark.parametrize("points", [[(30, 3)], [(10, 3), (20, 3), (30, 3)]])
def test_shapes_that_kubernetes_takes(points):
    NodeResourcesFit.read_arguments(shaped(*points), Warnings())


@pytest.mark.parametrize(
    ("resources", "key"),
    [
        ((), "scoringStrategy.resources"),
        ((ScoredResource("memory", -1), ScoredResource("cpu", 1)), "scoringStrategy.resources[0].weight"),
        ((ScoredResource("memory", 1), ScoredResource("cpu", 0)), "scoringStrategy.resources[1].weight"),
        ((ScoredResource("memory", 101), ScoredResource("cpu", 1)), "scoringStrategy.resources[0].weight"),
    ],
)
def test_kubernetes_vectors_of_weights_without_defaults(resources, key):
    with pytest.raises(ArgumentError) as caught:
        NodeResourcesFit(FitArguments(scoring_strategy=ScoringStrategy(MOST, resources)))
    assert caught.value.key == key


# -- against a plain loop

NAMES = ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "x.io/a", "x.io/b"]
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5) | st.sampled_from([2**20, 2**28, 2**31, 2**60]))
SHAPES = st.dictionaries(st.integers(0, 100), st.integers(0, 10), min_size=1, max_size=4)


def cut_off(dividend, divisor):
    return int(np.trunc(dividend / divisor))


def line(shape, at):
    points = sorted(shape.items())
    for number, (right, end) in enumerate(points):
        if at <= right:
            if number == 0:
                return end * 10
            left, start = points[number - 1]
            return start * 10 + cut_off((end - start) * 10 * (at - left), right - left)
    return points[-1][1] * 10


def one_by_one(kind, shape, resources, requests, used, offered):
    total = weight_sum = 0
    for name, weight in resources:
        capacity, always = offered.get(name, 0), name in ("cpu", "memory", "ephemeral-storage")
        if capacity == 0 or (not always and not requests.get(name)):
            continue
        after = requests.get(name, 0) + used.get(name, 0)
        if kind == LEAST:
            score = 0 if after > capacity else (capacity - after) * 100 // capacity
        else:
            score = min(after, capacity) * 100 // capacity
            if kind == RATIO:
                score = line(shape, score)
                if score == 0:
                    continue
        total += score * weight
        weight_sum += weight
    if not weight_sum:
        return 0
    return int(np.floor(total / weight_sum + 0.5)) if kind == RATIO else total // weight_sum


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(AMOUNTS, st.lists(AMOUNTS, max_size=2)), min_size=1, max_size=5),
    st.lists(AMOUNTS, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 100), min_size=1),
    st.sampled_from([LEAST, MOST, RATIO]),
    SHAPES,
)
def test_over_arrays_it_is_the_same_as_node_by_node(hosts, wanted, weights, kind, shape):
    largest = 2**52
    defaults = {"cpu": 100, "memory": 200 * MIB}

    def counted(amounts):
        said = {name: min(value, largest) for name, value in amounts.items()}
        return {**said, **{name: value for name, value in defaults.items() if name not in said}}

    objects, used = [], []
    for number, (offers, held) in enumerate(hosts):
        objects.append(host(f"n{number}", **offers))
        objects += [wants(f"n{number}-{i}", one, on=f"n{number}") for i, one in enumerate(held)]
        used.append({name: sum(counted(one).get(name, 0) for one in held) for name in NAMES})
    cluster = scenario(*objects)
    ratio = Ratio(tuple(ShapePoint(*point) for point in sorted(shape.items()))) if kind == RATIO else None
    resources = tuple(ScoredResource(*one) for one in weights.items())
    plugin = NodeResourcesFit(FitArguments(scoring_strategy=ScoringStrategy(kind, resources, ratio)))
    with Session(cluster, [plugin]) as session:
        for number, requests in enumerate(wanted * 2):
            decision = session.place(make_task(wants(f"p{number}", requests), cluster.vendors))
            found = [parts["noderesourcesfit"] for _, parts in sorted(decision.scores.items())]
            assert found == [
                one_by_one(kind, shape, weights.items(), counted(requests), used[i], at_most(offers, largest))
                for i, (offers, _) in enumerate(hosts)
            ]
            row = int(decision.node[1:])
            used[row] = {name: used[row].get(name, 0) + counted(requests).get(name, 0) for name in NAMES}


def at_most(offers, largest):
    return {name: min(value, largest) for name, value in offers.items()}
