"""The parts of resource-strategy-fit that keep scarce resources for those who need them: sra and proportional."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.scoring.resource_scores import Warnings, host, refused, scores, wants
from tests.properties.worlds import examples
from tests.scenario import reasons, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.plugins.filters.noderesources import NodeResources
from tonnage.plugins.scoring.resourcestrategyfit import ResourceStrategyFit

RESERVED = "ReservedForScarceResource"
T4, A10, GPU = "nvidia.com/t4", "nvidia.com/a10", "nvidia.com/gpu"


def avoiding(scarce=f"{T4}, {A10}", weight=5, t4=2, a10=3, **more):
    weights = {name: value for name, value in ((T4, t4), (A10, a10)) if name in scarce}
    sra = {"enable": True, "resources": scarce, "weight": weight, "resourceWeight": weights}
    return ResourceStrategyFit(
        ResourceStrategyFit.read_arguments({"resourceStrategyFitWeight": 0, "sra": sra} | more, lambda key, text: None)
    )


def keeping(resources=GPU, **amounts):
    named = {name.replace("__", ".com/").replace("_", "."): value for name, value in amounts.items()}
    proportional = {"enable": True, "resources": resources, "resourceProportion": named}
    given = {"resourceStrategyFitWeight": 0, "proportional": proportional}
    return ResourceStrategyFit(ResourceStrategyFit.read_arguments(given, lambda key, text: None))


# -- arguments


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"sra": {"resources": T4, "weight": 1}}, "sra", "has no effect without sra.enable: true"),
        ({"sra": {"enable": True, "weight": 1}}, "sra", "names no resources, so that no node is avoided"),
        ({"sra": {"enable": True, "resources": T4}}, "sra", "has the weight 0, so that no node is avoided"),
        ({"sra": {"enable": True, "resources": T4, "weight": -3}}, "sra", "has the weight -3"),
        (
            {"sra": {"enable": True, "resources": T4, "weight": 1, "resourceWeight": {T4: 0}}},
            "sra",
            "has resources of weight 0 only",
        ),
        (
            {"sra": {"enable": True, "resources": T4, "weight": 1, "resourceWeight": {T4: -2}}},
            f"sra.resourceWeight.{T4}",
            "-2 is below 0; 1 is used, as in Volcano",
        ),
        ({"proportional": {"resources": GPU}}, "proportional", "has no effect without proportional.enable: true"),
        ({"proportional": {"enable": True}}, "proportional", "names no resources, so that nothing is kept"),
        (
            {"proportional": {"enable": True, "resources": GPU, "resourceProportion": {f"{GPU}.cpu": -0.5}}},
            f"proportional.resourceProportion.{GPU}.cpu",
            "-0.5 is below 0; 1 is used, as in Volcano",
        ),
    ],
)
def test_what_does_not_do_what_one_might_think_is_said(given, key, message):
    warned = Warnings()
    plugin = ResourceStrategyFit(ResourceStrategyFit.read_arguments(given, warned))
    assert list(warned) == [key]
    assert message in warned[key]
    with Session(scenario(host("n", cpu=1000, memory=1)), [plugin]) as session:
        session.decide(make_task(wants("p", {"cpu": 100}), session.cluster.vendors))


def test_what_is_switched_off_in_so_many_words_is_not_said():
    warned = Warnings()
    off = {"enable": False, "resources": GPU}
    ResourceStrategyFit.read_arguments({"sra": off, "proportional": off}, warned)
    assert not warned


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"sra": {"resourceWeight": {T4: 1}}}, f"sra.resourceWeight.{T4}", "is not listed in sra.resources"),
        ({"sra": {"resources": T4, "resourceWeight": {T4: "1"}}}, f"sra.resourceWeight.{T4}", "expects an integer"),
        ({"sra": {"resources": T4, "resourceWeight": {T4: 1.5}}}, f"sra.resourceWeight.{T4}", "expects an integer"),
        ({"sra": {"resources": T4, "weight": 1.0}}, "sra.weight", "Expected `int`, got `float`"),
        ({"sra": {"enable": "yes"}}, "sra.enable", "Expected `bool`, got `str`"),
        (
            {"proportional": {"resources": GPU, "resourceProportion": {f"{GPU}.cpus": 1}}},
            f"proportional.resourceProportion.{GPU}.cpus",
            f"which takes proportional.resourceProportion.{GPU}.cpu, ",
        ),
        (
            {"proportional": {"resources": GPU, "resourceProportion": {f"{GPU}.cpu": True}}},
            f"proportional.resourceProportion.{GPU}.cpu",
            "expects a number, not True",
        ),
        (
            {"proportional": {"resources": GPU, "resourceProportion": {f"{GPU}.cpu": float("inf")}}},
            f"proportional.resourceProportion.{GPU}.cpu",
            "does not fit",
        ),
        (
            {"proportional": {"resourceProportion": {f"{GPU}.cpu": 1}}},
            f"proportional.resourceProportion.{GPU}.cpu",
            "lists no resources",
        ),
    ],
)
def test_what_it_does_not_take_is_an_error(given, key, says):
    found, message = refused(ResourceStrategyFit, given)
    assert found == key
    assert says in message


# -- avoiding

NODES = [
    host("n1", cpu=32000, memory="64Gi", pods=10),
    host("n2", cpu=8000, memory="16Gi", pods=10, **{T4: 16}),
    host("n3", cpu=8000, memory="16Gi", pods=10, **{A10: 16}),
    host("n4", cpu=8000, memory="16Gi", pods=10, **{T4: 8, A10: 16}),
]
PODS = {
    "cpu": wants("p1", {"cpu": 1000, "memory": "1Gi"}),
    "t4": wants("p2", {"cpu": 1500, T4: 2}),
    "a10": wants("p3", {"cpu": 2000, "memory": "4Gi", A10: 2}),
    "both": wants("p4", {"cpu": 3000, "memory": "4Gi", T4: 1, A10: 3}),
}


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (avoiding(), {"cpu": [500, 300, 200, 0], "t4": [0, 300, 0, 0], "a10": [0, 0, 200, 0], "both": [0, 0, 0, 0]}),
        (
            avoiding(T4),
            {"cpu": [500, 0, 500, 0], "t4": [0, 0, 0, 0], "a10": [0, 0, 500, 0], "both": [0, 0, 0, 0]},
        ),
        (
            avoiding(
                T4, resourceStrategyFitWeight=8, resources={T4: {"type": "MostAllocated", "weight": 3}, "cpu": {}}
            ),
            {
                "cpu": [1275, 700, 1200, 700],
                "t4": [190.625, 237.5, 162.5, 312.5],
                "a10": [750, 600, 1100, 600],
                "both": [181.25, 162.5, 125, 200],
            },
        ),
    ],
)
def test_volcanos_vectors_of_scarce_resource_avoidance(plugin, expected):
    cluster = scenario(*NODES)
    for name, numbers in expected.items():
        found = scores(cluster, plugin, PODS[name])
        assert [found[n] for n in ("n1", "n2", "n3", "n4")] == pytest.approx(numbers, abs=1e-9), name


def test_the_example_of_the_design():
    cluster = scenario(
        host("node1", cpu=32000, memory="64Gi"),
        host("node2", cpu=16000, memory="32Gi", **{T4: 10}),
        host("node3", cpu=16000, memory="32Gi", **{T4: 5, A10: 10}),
    )
    plugin = avoiding(weight=2, t4=1, a10=1)
    found = [list(scores(cluster, plugin, PODS[name]).values()) for name in ("cpu", "t4", "both")]
    assert found == [[200, 100, 0], [0, 100, 0], [0, 0, 0]]


def test_a_node_that_does_not_state_a_card_does_not_have_it():
    cluster = scenario(host("cards", cpu=8000, nvidia__gpu=2), host("none", cpu=8000))
    plugin = avoiding(GPU)
    assert scores(cluster, plugin, wants("p", {"cpu": 1000, "memory": 10})) == {"cards": 0, "none": 500}
    assert scores(cluster, plugin, wants("p", {"cpu": 1000, GPU: 1})) == {"cards": 0, "none": 0}


def test_a_scarce_resource_that_no_node_has_is_avoided_everywhere_and_reported():
    cluster = scenario(host("n", cpu=8000))
    with Session(cluster, [avoiding()]) as session:
        decision = session.decide(make_task(wants("p", {"cpu": 1000}), cluster.vendors))
        assert decision.scores["n"]["total"] == 500
        assert {problem.field for problem in session.problems()} == {"sra.resources"}
        lost = session.decide(make_task(wants("q", {"cpu": 1000, "x.io/y": 1}), cluster.vendors))
        assert lost.scores["n"]["total"] == 0


# -- keeping


def verdict(cluster, plugin, wanted):
    with Session(cluster, [NodeResources(), plugin]) as session:
        return session.decide(make_task(wanted, cluster.vendors))


@pytest.mark.parametrize(
    ("offers", "wanted", "fits"),
    [
        ({"cpu": 30000, "memory": "30G", GPU: 6}, {"cpu": 4000, "memory": "4G"}, True),
        ({"cpu": 30000, "memory": "30G", GPU: 6}, {"cpu": 10000, "memory": "10G"}, False),
        ({"cpu": 30000, "memory": "30G", GPU: 6}, {"cpu": 10000, "memory": "10G", GPU: 1}, True),
        ({"cpu": 26000, "memory": "26G", GPU: 2}, {"cpu": 10000, "memory": "10G"}, True),
        ({"cpu": 30000, "memory": "30G", GPU: 6}, {"cpu": 6000, "memory": "6G"}, True),
        ({"cpu": 30000, "memory": "30G", GPU: 6}, {"cpu": 6001}, False),
        ({"cpu": 30000, "memory": "30G", GPU: 6}, {"memory": 6 * 10**9 + 1}, False),
        ({"cpu": 30000, "memory": "30G"}, {"cpu": 30000, "memory": "30G"}, True),
    ],
)
def test_volcanos_vectors_of_what_is_kept(offers, wanted, fits):
    plugin = keeping(nvidia__gpu_cpu=4, nvidia__gpu_memory=4)
    decision = verdict(scenario(host("n", **offers)), plugin, wants("p", wanted))
    assert (decision.node == "n") is fits
    assert reasons(decision) == ({} if fits else {RESERVED: 1})


def test_only_idle_cards_count():
    nodes = host("n", cpu=74000, memory="128G", nvidia__gpu=8)
    plugin = keeping(nvidia__gpu_cpu=8, nvidia__gpu_memory=8)
    cluster = scenario(nodes)
    with Session(cluster, [NodeResources(), plugin]) as session:
        pods = [make_task(wants(name, {"cpu": 8000, "memory": "8G"}), cluster.vendors) for name in "abc"]
        assert session.place(pods[0]).node == "n"
        assert session.place(pods[1]).node is None
        gpu = make_task(wants("g", {"cpu": 8000, "memory": "8G", GPU: 1}), cluster.vendors)
        assert session.place(gpu).node == "n"
        assert session.place(pods[2]).node is None
        cluster.upsert_pod(wants("big", {"cpu": 1000, GPU: 7}, on="n"))
        assert session.place(pods[2]).node == "n"


def test_the_reason_says_what_is_kept_and_for_what():
    plugin = keeping(nvidia__gpu_cpu=4, nvidia__gpu_memory=4)
    cluster = scenario(host("n", cpu=30000, memory="30G", nvidia__gpu=6))
    (rejected,) = verdict(cluster, plugin, wants("p", {"cpu": 10000, "memory": "1G"})).rejected
    assert (rejected.plugin, rejected.reason) == ("resource-strategy-fit", RESERVED)
    assert rejected.message == "n: cpu: wants 10, 30 free, of which 24 are kept for 6 nvidia.com/gpu"


def test_what_is_really_used_up_is_said_first():
    plugin = keeping(nvidia__gpu_cpu=4, nvidia__gpu_memory=4)
    cluster = scenario(host("n", cpu=30000, memory="30G", nvidia__gpu=6))
    assert reasons(verdict(cluster, plugin, wants("p", {"cpu": 31000}))) == {"InsufficientCpu": 1}


def test_a_resource_that_no_node_has_keeps_nothing():
    cluster = scenario(host("n", cpu=1000, memory=10))
    assert verdict(cluster, keeping("x.io/y"), wants("p", {"cpu": 1000})).node == "n"


def test_nothing_is_kept_on_nodes_without_what_is_scarce():
    plugin = keeping(nvidia__gpu_cpu=4, nvidia__gpu_memory=4)
    cluster = scenario(host("cards", cpu=8000, memory="9G", nvidia__gpu=2), host("none", cpu=8000, memory="9G"))
    decision = verdict(cluster, plugin, wants("p", {"cpu": 8000}))
    assert (decision.node, reasons(decision)) == ("none", {RESERVED: 1})
    full = scenario(host("n", cpu=1000, memory="1G", nvidia__gpu=2), wants("x", {"cpu": 2000, GPU: 2}, on="n"))
    assert verdict(full, plugin, wants("p", {"memory": 10})).node == "n"


def test_several_resources_each_keep_their_own():
    plugin = keeping(f"{T4},{A10}", nvidia__t4_cpu=1, nvidia__a10_cpu=3, nvidia__t4_memory=0)
    cluster = scenario(host("n", cpu=30000, memory="3G", **{T4: 10, A10: 3}))
    assert verdict(cluster, plugin, wants("p", {"cpu": 20000})).node == "n"
    assert verdict(cluster, plugin, wants("p", {"cpu": 20001})).node is None
    assert verdict(cluster, plugin, wants("p", {"cpu": 1000, "memory": 1})).node is None
    assert verdict(cluster, plugin, wants("p", {"cpu": 25000, A10: 1})).node == "n"


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(*[st.integers(0, 30)] * 4), min_size=1, max_size=8),
    st.tuples(*[st.sampled_from([0, 0.5, 1, 2.5, 4])] * 4),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_over_arrays_it_is_the_same_as_node_by_node(hosts, amounts, wanted):
    keys = [f"{name}.{of}" for name in (T4, A10) for of in ("cpu", "memory")]
    given = {"enable": True, "resources": f"{T4},{A10}", "resourceProportion": dict(zip(keys, amounts, strict=True))}
    args = {"resourceStrategyFitWeight": 0, "proportional": given}
    plugin = ResourceStrategyFit(ResourceStrategyFit.read_arguments(args, lambda key, text: None))
    cluster = scenario(
        *(
            host(f"n{i}", cpu=cpu * 1000, memory=f"{memory}G", **{T4: t4, A10: a10})
            for i, (cpu, memory, t4, a10) in enumerate(hosts)
        )
    )
    decision = verdict(cluster, plugin, wants("p", {"cpu": wanted[0] * 1000, "memory": f"{wanted[1]}G"}))
    expected = {}
    for cpu, memory, t4, a10 in hosts:
        left = cpu - wanted[0], memory - wanted[1]
        if min(left) < 0:
            reason = "InsufficientMemory" if left[1] < 0 else "InsufficientCpu"
        elif any(left[0] < idle * amounts[at] or left[1] < idle * amounts[at + 1] for at, idle in ((0, t4), (2, a10))):
            reason = RESERVED
        else:
            continue
        expected[reason] = expected.get(reason, 0) + 1
    assert reasons(decision) == expected
