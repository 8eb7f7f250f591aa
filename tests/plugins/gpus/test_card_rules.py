"""What keeps a pod off a card: health, cordon, model, UUID lists, slots, memory, compute, exclusive use."""

import pytest

from tests.scenario import cards, decide, gpu, node, place, pod, reasons, running, scenario, usage

A10 = "NVIDIA A10"
A100 = "NVIDIA A100-SXM4-40GB"
V100 = "NVIDIA-Tesla V100-PCIE-32GB"


def one_card(**about):
    return node("a", gpus=[gpu("a/0", **about)])


def why(cluster, wanted, **policies):
    """The reason why the only node of a cluster will not do."""
    decision = decide(cluster, wanted, **policies)
    assert decision.node is None
    ((reason, count),) = reasons(decision).items()
    assert count == 1
    return reason


def test_a_card_that_is_not_healthy_takes_nothing():
    assert why(scenario(one_card(healthy=False)), pod("p", 1)) == "CardNotHealth"
    two = scenario(node("a", gpus=[gpu("good"), gpu("bad", index=1, healthy=False)]))
    assert cards(decide(two, pod("p", 1))) == ["good"]


def test_a_cordoned_card_keeps_what_it_holds_and_takes_nothing_new():
    cordon = {"hami.io/device-cordon": "a/1, a/7"}
    cluster = scenario(node("a", gpus=2, annotations=cordon), running("x", on="a", gpu=1, memory=1000))
    assert usage(cluster, "a") == [(0, 0, 0), (1, 1000, 0)]
    assert cards(place(cluster, pod("p", 1))) == ["a/0"]
    assert why(cluster, pod("q", 1)) == "CardInsufficientMemory"
    assert why(scenario(node("a", gpus=1, annotations={"hami.io/device-cordon": "a/0"})), pod("p", 1)) == "CardCordoned"


@pytest.mark.parametrize(
    ("use", "refuse", "expected"),
    [
        ("A10", "", ["a10", "a100"]),
        ("A10", "A100", ["a10"]),
        ("a100", "", ["a100"]),
        ("V100,A100", "", ["a100", "v100"]),
        ("", "A10", ["v100"]),
        ("", "", ["a10", "a100", "v100"]),
        ("", ",", ["a10", "a100", "v100"]),
        (",", "", []),
        (" , ,", "", []),
        ("V100,", "A10,", ["v100"]),
        ("H100", "", []),
    ],
)
def test_models_that_a_pod_wants_and_refuses_match_by_a_part_of_their_name(use, refuse, expected):
    cluster = scenario(node("a", gpus=[gpu("a10", type=A10), gpu("a100", type=A100), gpu("v100", type=V100)]))
    wish = {"nvidia.com/use-gputype": use, "nvidia.com/nouse-gputype": refuse}
    if not expected:
        assert why(cluster, pod("p", 1, annotations=wish)) == "CardTypeMismatch"
        return
    assert sorted(cards(decide(cluster, pod("p", len(expected), annotations=wish)))) == expected
    assert decide(cluster, pod("p", len(expected) + 1, annotations=wish)).node is None


@pytest.mark.parametrize(
    ("use", "refuse", "expected"),
    [
        ("a/1", "", ["a/1"]),
        ("a/0, a/2,", "", ["a/0", "a/2"]),
        ("", "a/1", ["a/0", "a/2"]),
        ("a/0,a/1", "a/1", ["a/0"]),
        ("", "", ["a/0", "a/1", "a/2"]),
        (" ", ",", ["a/0", "a/1", "a/2"]),
        ("a/1", "a/1", []),
        ("a", "", []),
        ("elsewhere", "", []),
    ],
)
def test_cards_that_a_pod_wants_and_refuses_by_uuid(use, refuse, expected):
    cluster = scenario(node("a", gpus=3))
    wish = {"nvidia.com/use-gpuuuid": use, "nvidia.com/nouse-gpuuuid": refuse}
    if not expected:
        assert why(cluster, pod("p", 1, annotations=wish)) == "CardUuidMismatch"
        return
    assert sorted(cards(decide(cluster, pod("p", len(expected), annotations=wish)))) == expected
    assert decide(cluster, pod("p", len(expected) + 1, annotations=wish)).node is None


def test_a_uuid_finds_its_node():
    cluster = scenario(node("a", gpus=2), node("b", gpus=2), running("x", on="a", memory=100))
    decision = decide(cluster, pod("p", 1, annotations={"nvidia.com/use-gpuuuid": "b/0"}))
    assert cards(decision) == ["b/0"]
    assert reasons(decision) == {"CardUuidMismatch": 1}


@pytest.mark.parametrize(
    ("modes", "expected"), [("mig", "CardTypeMismatch"), ("hami-core", None), ("mps,hami-core", None), ("", None)]
)
def test_the_modes_that_a_pod_allows(modes, expected):
    cluster = scenario(one_card(mode="hami-core"))
    decision = decide(cluster, pod("p", 1, annotations={"nvidia.com/vgpu-mode": modes}))
    assert reasons(decision) == ({expected: 1} if expected else {})


def test_slots_run_out():
    cluster = scenario(node("a", gpus=1, slots=2), *[running(f"x{i}", on="a", memory=10) for i in range(2)])
    assert why(cluster, pod("p", 1, memory=10)) == "CardTimeSlicingExhausted"


def test_memory_runs_out():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=5000))
    assert why(cluster, pod("p", 1, memory=3001)) == "CardInsufficientMemory"
    assert decide(cluster, pod("p", 1, memory=3000)).node == "a"


def test_a_request_larger_than_any_card_waits_with_the_numbers():
    cluster = scenario(node("a", gpus=2), node("b", gpus=1, gpu_memory=4000))
    decision = decide(cluster, pod("p", 1, memory=9000))
    assert reasons(decision) == {"CardInsufficientMemory": 2}
    assert "wants 9000 MiB on a card, at most 8000 of 8000 MiB are free" in decision.rejected[0].message


def test_a_percentage_is_of_each_cards_own_memory():
    cluster = scenario(node("a", gpus=[gpu("small", memory=4001), gpu("large", index=1, memory=8000)]))
    decision = place(cluster, pod("p", 2, percentage=50))
    assert {device.uuid: device.memory for device in decision.devices} == {"small": 2000, "large": 4000}
    assert why(cluster, pod("q", 2, percentage=51)) == "CardInsufficientMemory"


def test_memory_in_mib_wins_over_a_percentage():
    (device,) = decide(scenario(node("a", gpus=1)), pod("p", 1, memory=1000, percentage=50)).devices
    assert device.memory == 1000


def test_a_card_without_further_words_is_given_with_all_its_memory():
    (device,) = place(scenario(node("a", gpus=1)), pod("p", 1)).devices
    assert (device.memory, device.cores) == (8000, 0)


def test_compute_runs_out():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=10, cores=60))
    assert why(cluster, pod("p", 1, memory=10, cores=50)) == "CardInsufficientCore"
    assert (
        "wants 50 % of a card's compute, at most 40 % are free"
        in decide(cluster, pod("p", 1, memory=10, cores=50)).rejected[0].message
    )


def test_more_than_all_of_a_cards_compute_means_all_of_it():
    (device,) = place(scenario(node("a", gpus=1)), pod("p", 1, memory=10, cores=150)).devices
    assert device.cores == 100


def test_an_exclusive_pod_takes_idle_cards_only():
    cluster = scenario(node("a", gpus=2), running("x", on="a", gpu=1, memory=10))
    assert cards(place(cluster, pod("p", 1, memory=10, cores=100), gpu_policy="binpack")) == ["a/0"]
    assert why(cluster, pod("q", 1, memory=10, cores=100)) == "ExclusiveDeviceAllocateConflict"


def test_nobody_joins_an_exclusive_pod():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=10, cores=100))
    assert why(cluster, pod("p", 1, memory=10, cores=10)) == "CardInsufficientCore"
    assert why(cluster, pod("p", 1, memory=10)) == "CardComputeUnitsExhausted"


def test_exclusive_use_is_off_where_compute_is_scaled():
    cluster = scenario(one_card(cores=200), running("x", on="a", memory=10, cores=10))
    assert decide(cluster, pod("p", 1, memory=10, cores=100)).node == "a"


def test_a_card_without_compute_to_share_takes_pods_that_ask_for_none():
    cluster = scenario(one_card(cores=0))
    assert decide(cluster, pod("p", 1, memory=10)).node == "a"
    assert why(cluster, pod("p", 1, memory=10, cores=1)) == "CardInsufficientCore"


def test_mutex_wants_idle_cards():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=10))
    assert why(cluster, pod("p", 1, memory=10), gpu_policy="mutex") == "ExclusiveDeviceAllocateConflict"


def test_the_reason_is_that_of_the_card_that_came_furthest():
    cluster = scenario(
        node("a", gpus=[gpu("sick", healthy=False), gpu("full", index=1, memory=10), gpu("busy", index=2)]),
        running("x", on="a", gpu="busy", memory=10, cores=80),
    )
    decision = decide(cluster, pod("p", 1, memory=100, cores=50))
    assert reasons(decision) == {"CardInsufficientCore": 1}
    assert decision.rejected[0].message.startswith(
        "a: 1/3 CardInsufficientCore, 1/3 CardInsufficientMemory, 1/3 CardNotHealth"
    )


def test_a_node_without_cards_is_unregistered():
    assert why(scenario(node("a")), pod("p", 1)) == "NodeUnregistered"


def test_more_cards_than_the_node_has():
    cluster = scenario(node("a", gpus=2))
    decision = decide(cluster, pod("p", 3, memory=10))
    assert reasons(decision) == {"NodeInsufficientDevice": 1}
    assert decision.rejected[0].message == "a: wants 3 NVIDIA cards, the node has 2"


def test_fewer_fitting_cards_than_asked_for():
    cluster = scenario(node("a", gpus=2), running("x", on="a", gpu=0, memory=8000))
    decision = decide(cluster, pod("p", 2, memory=10))
    assert reasons(decision) == {"AllocatedCardsInsufficientRequest": 1}
    assert "wants 2 cards, 1 fit" in decision.rejected[0].message


@pytest.mark.parametrize("count", [0, "0"])
def test_a_count_of_zero_asks_for_nothing(count):
    decision = place(scenario(node("a")), pod("p", count, memory=1000))
    assert decision.node == "a"
    assert cards(decision) == []


@pytest.mark.parametrize(
    "wants", [{"gpus": -1}, {"gpus": 1, "memory": -5}, {"gpus": 1, "cores": -1}, {"gpus": 1, "memory": "16Gi"}]
)
def test_numbers_without_meaning_keep_the_pod_waiting(wants):
    decision = decide(scenario(node("a", gpus=1), node("b", gpus=1)), pod("p", **wants))
    assert reasons(decision) == {"InvalidRequest": 2}
    assert "'main'" in decision.rejected[0].message
