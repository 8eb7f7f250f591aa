"""Processors, memory, pods and extended resources; the number of cards that the kubelet accounts for is one of them."""

import pytest

from tests.scenario import container, decide, node, place, pod, reasons, running, scenario

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("offers", "wants", "reason", "message"),
    [
        ({"cpu": 2}, {"cpu": "2500m"}, "InsufficientCpu", "cpu: wants 2500m, 2 of 2 free"),
        ({"memory": "1Gi"}, {"memory": "1536Mi"}, "InsufficientMemory", "memory: wants 1.5Gi, 1Gi of 1Gi free"),
        ({"pods": 0}, {}, "InsufficientPods", "pods: wants 1, 0 of 0 free"),
        (
            {"ephemeral-storage": "1Gi"},
            {"ephemeral-storage": "2Gi"},
            "InsufficientEphemeralStorage",
            "ephemeral-storage: wants 2Gi, 1Gi of 1Gi free",
        ),
        ({"x.io/y": 1}, {"x.io/y": 2}, "InsufficientExtendedResource", "x.io/y: wants 2, 1 of 1 free"),
        (
            {"cpu": 1, "pods": 0},
            {"cpu": 2},
            "InsufficientPods",
            "cpu: wants 2, 1 of 1 free; pods: wants 1, 0 of 0 free",
        ),
    ],
)
def test_too_little_is_said_with_numbers(offers, wants, reason, message):
    limits = {name: value for name, value in wants.items() if name != "memory"}
    plain = container("main", **limits)
    if "memory" in wants:
        plain.resources.limits["memory"] = wants["memory"]
    decision = decide(scenario(node("n", **offers)), pod("p", containers=[plain]))
    assert reasons(decision) == {reason: 1}
    assert decision.rejected[0].message == f"n: {message}"


def test_what_pods_hold_is_no_longer_free():
    cluster = scenario(node("n", cpu=4), pod("x", on="n", cpu=3))
    assert decide(cluster, pod("p", cpu=1)).node == "n"
    assert reasons(decide(cluster, pod("p", cpu="1001m"))) == {"InsufficientCpu": 1}
    cluster.remove_pod("default/x")
    assert decide(cluster, pod("p", cpu=4)).node == "n"


def test_init_containers_count_at_their_peak_and_sidecars_beside_the_others():
    cluster = scenario(node("n", cpu=4))
    init = [container("big", cpu=4), container("also", cpu=3)]
    assert decide(cluster, pod("p", init=init, cpu=2)).node == "n"
    beside = [container("side", sidecar=True, cpu=1), container("big", cpu=4)]
    assert reasons(decide(cluster, pod("p", init=beside, cpu=2))) == {"InsufficientCpu": 1}
    place(cluster, pod("q", init=init, cpu=1))
    assert reasons(decide(cluster, pod("p", cpu="1m"))) == {"InsufficientCpu": 1}


def test_a_node_that_does_not_state_a_native_resource_is_not_checked_for_it():
    cluster = scenario(node("n"))
    storage = container("main", **{"ephemeral-storage": "100Ti"})
    assert decide(cluster, pod("p", containers=[storage])).node == "n"


def test_an_extended_resource_that_no_node_offers():
    decision = decide(scenario(node("a"), node("b")), pod("p", **{"x.io/y": 1}))
    assert reasons(decision) == {"InsufficientExtendedResource": 2}
    assert decision.rejected[0].message == "no node offers x.io/y; the pod requests 1"


def test_a_resource_that_no_node_offers_any_more():
    cluster = scenario(node("a", **{"x.io/y": 1}))
    cluster.upsert_node(node("a"))
    decision = decide(cluster, pod("p", **{"x.io/y": 1}))
    assert decision.rejected[0].message == "no node offers x.io/y; the pod requests 1"


def test_a_resource_that_a_later_node_offers_counts_for_pods_from_before():
    cluster = scenario(node("a"), pod("x", on="b", **{"x.io/y": 1}), pod("z", on="a", **{"x.io/y": 1}))
    cluster.upsert_node(node("b", **{"x.io/y": 2}))
    cluster.upsert_node(node("a", **{"x.io/y": 2}))
    for i in range(2):
        assert place(cluster, pod(f"p{i}", **{"x.io/y": 1})).node
    assert reasons(decide(cluster, pod("p", **{"x.io/y": 1}))) == {"InsufficientExtendedResource": 2}


def test_the_nodes_number_of_cards_is_a_limit():
    cluster = scenario(node("n", gpus=2, **{GPU: 3}), running("x", on="n", gpu=(0, 1), memory=100))
    assert place(cluster, pod("p", 1, memory=100)).node == "n"
    decision = decide(cluster, pod("q", 1, memory=100))
    assert reasons(decision) == {"InsufficientExtendedResource": 1}
    assert decision.rejected[0].message == "n: nvidia.com/gpu: wants 1, 0 of 3 free"


def test_a_node_that_states_no_number_of_cards_is_limited_by_their_slots_only():
    cluster = scenario(node("n", gpus=1, slots=3))
    assert all(place(cluster, pod(f"p{i}", 1, memory=100)).node for i in range(3))
    assert reasons(decide(cluster, pod("q", 1, memory=100))) == {"CardTimeSlicingExhausted": 1}


def test_memory_and_compute_of_cards_are_not_looked_for_on_the_node():
    assert decide(scenario(node("n", gpus=1)), pod("p", 1, memory=100, cores=10)).node == "n"


def test_absurd_requests_do_not_wrap_around():
    heavy = container("main")
    heavy.resources.limits["memory"] = "7Ei"
    cluster = scenario(node("n"), *[pod(f"x{i}", on="n", containers=[heavy]) for i in range(9)])
    small = container("main")
    small.resources.limits["memory"] = "1Gi"
    assert reasons(decide(cluster, pod("p", containers=[small]))) == {"InsufficientMemory": 1}
    for i in range(9):
        cluster.remove_pod(f"default/x{i}")
    assert decide(cluster, pod("p", containers=[small])).node == "n"


def test_an_absurd_offer_can_be_used():
    assert decide(scenario(node("n", **{"x.io/y": "9E"})), pod("p", **{"x.io/y": "1P"})).node == "n"


def test_a_negative_offer_is_nothing():
    cluster = scenario(node("n", cpu=-4))
    assert reasons(decide(cluster, pod("p", cpu=1))) == {"InsufficientCpu": 1}
    assert [problem.field for problem in cluster.problems()] == ["status.allocatable[cpu]"]


def test_an_offer_that_cannot_be_read_hides_itself_only():
    cluster = scenario(node("n", gpus=1, **{"x.io/y": "much"}))
    assert decide(cluster, pod("p", 1)).node == "n"
    assert [problem.field for problem in cluster.problems()] == ["status.allocatable[x.io/y]"]


@pytest.mark.parametrize("value", ["-1", "one", "1Q"])
def test_a_request_that_cannot_be_read_keeps_the_pod_waiting(value):
    assert reasons(decide(scenario(node("n")), pod("p", cpu=value))) == {"InvalidRequest": 1}
