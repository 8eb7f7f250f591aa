"""The Resource Bin Packing priority function: its examples, its Policy document, and how Kubernetes' ratio differs."""

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
from tonnage.plugins.scoring._fitarguments import FitArguments, ScoredResource, ScoringStrategy
from tonnage.plugins.scoring._resourcescores import broken_line
from tonnage.plugins.scoring.noderesourcesfit import NodeResourcesFit, from_policy

BIN_PACKING = "ResourceBinPacking"
FOO, BAR = "intel.com/foo", "intel.com/bar"
WEIGHTS = [{"name": FOO, "weight": 5}, {"name": "memory", "weight": 1}, {"name": "cpu", "weight": 3}]


def plugin(kind=BIN_PACKING, resources=WEIGHTS, **more):
    given = {"scoringStrategy": {"type": kind, "resources": resources, **more}}
    return NodeResourcesFit(NodeResourcesFit.read_arguments(given, Warnings()))


def policy(*resources, weight=5, name="ResourceBinPackingPriority"):
    argument = {"resourceBinPacking": {"resources": list(resources)}}
    return {"priorities": [{"name": name, "weight": weight, "argument": argument}]}


SEED = policy(
    {"resource": FOO, "weight": 5},
    {"resource": BAR, "weight": 2},
    {"resource": "cpu", "weight": 1},
)


# -- the two nodes


def two_nodes():
    return scenario(
        host("n1", cpu=8000, memory=1024, intel__foo=4),
        host("n2", cpu=8000, memory=1024, intel__foo=8),
        wants("x", {"cpu": 1000, "memory": 256, FOO: 1}, on="n1"),
        wants("y", {"cpu": 6000, "memory": 512, FOO: 2}, on="n2"),
    )


WANTED = wants("p", {"cpu": 2000, "memory": 256, FOO: 2})


def test_the_two_nodes_of_the_proposal_get_six_and_seven():
    found = list(scores(two_nodes(), plugin(), WANTED).values())
    assert [round(score, 2) for score in found] == [5.97, 6.94]
    assert [round(score) for score in found] == [6, 7]


def test_todays_ratio_gives_them_sixty_and_sixty_nine():
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    ratio = plugin("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})
    assert list(scores(two_nodes(), ratio, WANTED).values()) == [60, 69]


def first_version(shape, parts, *, mean=False):
    """RequestedToCapacityRatio as it began: scores from 0 to 10, percents rounded up; before weights a mean."""
    scored = [(broken_line(shape, 100 - (cap - used) * 100 // cap), weight) for used, cap, weight in parts]
    if mean:
        return sum(score for score, _ in scored) // len(scored)
    total, weights = sum(s * w for s, w in scored if s), sum(w for s, w in scored if s)
    return (2 * total + weights) // (2 * weights)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [([(3, 4, 5), (512, 1024, 1), (3, 8, 3)], 5), ([(4, 8, 5), (768, 1024, 1), (8, 8, 3)], 7)],
)
def test_its_first_version_with_weights_gave_them_five_and_seven(parts, expected):
    assert first_version(((0, 0), (100, 10)), parts) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(0, 4000, 1), (0, 10000, 1)], 10),
        ([(3000, 4000, 1), (5000, 10000, 1)], 4),
        ([(3000, 6000, 1), (5000, 10000, 1)], 5),
    ],
)
def test_the_line_gives_the_vectors_of_the_version_without_weights(parts, expected):
    assert first_version(((0, 10), (100, 0)), parts, mean=True) == expected


# -- the three jobs


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("LeastAllocated", ["node-1", "node-2", None]), (BIN_PACKING, ["node-3", "node-1", "node-2"])],
)
def test_three_jobs_all_run_if_the_small_one_goes_where_utilization_is_higher(kind, expected):
    """One of four is in use on node 3; spread out, the job of two splits a node that a job of four needs."""
    cluster = scenario(
        *(host(f"node-{number}", cpu=8000, memory="8Gi", pods=10, intel__foo=4) for number in (1, 2, 3)),
        wants("x", {"cpu": 1000, "memory": "1Gi", FOO: 1}, on="node-3"),
    )
    with Session(cluster, [*default_plugins(), plugin(kind, [{"name": FOO, "weight": 5}])]) as session:
        jobs = [wants(f"job-{i}", {"cpu": 1000, "memory": "1Gi", FOO: foo}) for i, foo in enumerate((2, 4, 4))]
        decisions = [session.place(make_task(job, cluster.vendors)) for job in jobs]
    assert [decision.node for decision in decisions] == expected
    assert "noderesourcesfit" in decisions[0].scores["node-3"]


# -- rules


def test_what_is_not_requested_counts_too_and_requests_are_taken_as_they_are():
    cluster = scenario(host("n", cpu=1000, memory="1Gi", intel__foo=4), wants("x", {FOO: 2}, on="n"))
    assert scores(cluster, plugin(), wants("p", {})) == {"n": 5 * 0.5 / 9 * 10}


def test_a_node_without_a_resource_gets_nothing_for_it_while_its_weight_counts():
    resources = [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 1}, {"name": FOO, "weight": 2}]
    cluster = scenario(host("n", cpu=1000), host("m", cpu=1000, nvidia__gpu=2))
    wanted = wants("p", {"cpu": 1000, "nvidia.com/gpu": 1})
    assert scores(cluster, plugin(resources=resources), wanted) == {"m": 3.75, "n": 2.5}
    assert scores(cluster, plugin(resources=[{"name": FOO, "weight": 2}]), wanted) == {"m": 0, "n": 0}


def test_pods_can_be_packed():
    cluster = scenario(host("n", pods=4))
    assert scores(cluster, plugin(resources=[{"name": "pods", "weight": 7}]), wants("p", {})) == {"n": 2.5}


# -- the Policy document


def test_the_policy_of_the_proposal():
    resources = (ScoredResource(FOO, 5), ScoredResource(BAR, 2), ScoredResource("cpu", 1))
    expected = FitArguments(scoring_strategy=ScoringStrategy(BIN_PACKING, resources), weight=5)
    assert from_policy(SEED) == expected
    assert (
        from_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsHost"}], **SEED}) == expected
    )


def test_the_priority_among_others_and_the_key_that_kubernetes_came_to_use():
    document = policy({"name": FOO, "weight": 500}, weight=None)
    document["priorities"].insert(0, {"name": "LeastRequestedPriority", "weight": 1})
    args = from_policy(document)
    assert args.weight == 1
    assert args.scoring_strategy.resources == (ScoredResource(FOO, 500),)


def test_the_priority_multiplies_the_score():
    document = policy(*({"resource": one["name"], "weight": one["weight"]} for one in WEIGHTS))
    found = list(scores(two_nodes(), NodeResourcesFit(from_policy(document)), WANTED).values())
    assert [round(score, 2) for score in found] == [29.86, 34.72]


PLACE = "priorities[0].argument.resourceBinPacking.resources"


@pytest.mark.parametrize(
    ("document", "key", "says"),
    [
        ({}, "priorities", "no priority has an argument resourceBinPacking"),
        ({"priorities": [{"name": "LeastRequestedPriority", "weight": 1}]}, "priorities", "no priority has"),
        ({"priorities": SEED["priorities"] * 2}, "priorities", "more than one priority has"),
        ({"kind": "Pod", **SEED}, "kind", "expects Policy, not Pod"),
        ({"priorities": 3}, "priorities", "Expected `array`"),
        (policy({"resource": "cpu", "weight": 1}, weight="5"), "priorities[0].weight", "Expected `int | null`"),
        (policy({"resource": "cpu", "weight": 1}, weight=-5), "priorities[0].weight", "not -5"),
        (policy(), PLACE, "at least one resource is needed"),
        (policy({"resource": "cpu"}), f"{PLACE}[0]", "missing required field `weight`"),
        (policy({"weight": 1}), f"{PLACE}[0]", "expects the resource's name, as `resource`"),
        (policy({"resource": "cpu", "name": "cpu", "weight": 1}), f"{PLACE}[0]", "expects the resource's name"),
        (policy({"resource": "cpu", "weight": 1, "x": 1}), f"{PLACE}[0]", "unknown field `x`"),
        (policy({"resource": "cpu", "weight": 1}, {"resource": FOO, "weight": 0}), f"{PLACE}[1].weight", "not 0"),
    ],
)
def test_a_policy_that_cannot_be_read_is_an_error(document, key, says):
    with pytest.raises(ArgumentError) as caught:
        from_policy(document)
    assert caught.value.key == key
    assert says in caught.value.message


def test_a_shape_does_not_go_with_it():
    shape = {"shape": [{"utilization": 0, "score": 0}]}
    given = {"scoringStrategy": {"type": BIN_PACKING, "requestedToCapacityRatio": shape}}
    assert refused(NodeResourcesFit, given)[0] == "scoringStrategy.requestedToCapacityRatio"


# -- against a plain loop

NAMES = ["cpu", "memory", "pods", "nvidia.com/gpu", FOO, BAR, "x.io/a", "x.io/b", "x.io/c", "x.io/d"]
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 12), max_size=len(NAMES))


def one_by_one(weights, requests, used, offered):
    total, weight_sum = 0.0, 0
    for name, weight in weights.items():
        if offered.get(name):
            total += (requests.get(name, 0) + used.get(name, 0)) / offered[name] * weight
        weight_sum += weight
    return total / weight_sum * 10


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=5),
    st.lists(AMOUNTS, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 1000), min_size=1),
)
def test_over_arrays_it_is_the_formula_node_by_node(hosts, wanted, weights):
    objects, used = [], []
    for number, (offers, held) in enumerate(hosts):
        held = {**held, "pods": 1}
        objects += [host(f"n{number}", **offers), wants(f"x{number}", held, on=f"n{number}")]
        used.append(held)
    cluster = scenario(*objects)
    resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
    with Session(cluster, [plugin(resources=resources)]) as session:
        for number, requests in enumerate(wanted * 2):
            requests = {**requests, "pods": 1}
            decision = session.place(make_task(wants(f"p{number}", requests), cluster.vendors))
            found = [parts["noderesourcesfit"] for _, parts in sorted(decision.scores.items())]
            assert found == [one_by_one(weights, requests, used[i], offers) for i, (offers, _) in enumerate(hosts)]
            row = int(decision.node[1:])
            used[row] = {name: used[row].get(name, 0) + requests.get(name, 0) for name in NAMES}
