"""MIG: instances of one card or several, and the policies that meet them."""

import json

import pytest

from tests.plugins.gpus.migcards import holder, mig
from tests.scenario import (
    ALLOCATED,
    Container,
    ResourceRequirements,
    cards,
    container,
    decide,
    gpu,
    node,
    place,
    pod,
    reasons,
    scenario,
    usage,
)

NUMA_BIND = {"nvidia.com/numa-bind": "true"}


def instances(decision):
    """Card, profile and start of each instance."""
    return [
        (use.uuid, use.profile, use.placement.start)
        for _, uses in decision.grant
        for container in uses
        for use in container
    ]


def test_the_smallest_profile_that_holds_the_request_is_cut_and_counted():
    cluster = scenario(node("a", gpus=[mig("m")]))
    decision = place(cluster, pod("p", 1, memory=6000))
    assert instances(decision) == [("m", "2g.10gb", 0)]
    (device,) = decision.devices
    assert (device.memory, device.cores) == (9856, 28)
    assert usage(cluster, "a") == [(1, 9856, 28)]


def test_small_and_middle_instances_are_cut_from_the_top():
    cluster = scenario(node("a", gpus=[mig("m")]))
    asks = [15000, 9000, 1000, 1000]
    found = [instances(place(cluster, pod(f"p{i}", 1, memory=m)))[0][1:] for i, m in enumerate(asks)]
    assert found == [("3g.20gb", 4), ("2g.10gb", 0), ("1g.5gb", 3), ("1g.5gb", 2)]


def test_a_fourth_instance_of_two_slices_finds_no_place():
    cluster = scenario(node("a", gpus=[mig("m")]))
    assert all(place(cluster, pod(f"p{i}", 1, memory=9000)).node for i in range(3))
    decision = decide(cluster, pod("p", 1, memory=9000))
    assert reasons(decision) == {"CardMigTopologyInfeasible": 1}
    assert decide(cluster, pod("p", 1, memory=1000)).node == "a"


def test_one_card_serves_several_instances_of_one_container():
    cluster = scenario(node("a", gpus=[mig("m")]))
    decision = place(cluster, pod("p", 3, memory=4000))
    assert instances(decision) == [("m", "1g.5gb", 6), ("m", "1g.5gb", 5), ("m", "1g.5gb", 4)]
    assert usage(cluster, "a") == [(3, 3 * 4864, 3 * 14)]


def test_instances_go_on_to_the_next_card_when_one_is_full():
    cluster = scenario(node("a", gpus=[mig("m0"), mig("m1", 1)]))
    decision = place(cluster, pod("p", 3, memory=15000))
    assert [uuid for uuid, *_ in instances(decision)] == ["m1", "m1", "m0"]


def test_more_instances_than_there_is_room_for():
    cluster = scenario(node("a", gpus=[mig("m")]))
    assert reasons(decide(cluster, pod("p", 3, memory=15000))) == {"CardMigTopologyInfeasible": 1}


def test_releasing_an_instance_frees_its_place():
    cluster = scenario(node("a", gpus=[mig("m")]))
    place(cluster, pod("p", 1, memory=30000))
    assert decide(cluster, pod("q", 1, memory=1000)).node is None
    cluster.release("default/p")
    assert decide(cluster, pod("q", 1, memory=30000)).node == "a"


def test_the_instances_of_running_pods_are_read_from_their_annotations():
    cluster = scenario(node("a", gpus=[mig("m")]), holder("x", "m", 6, 1), holder("y", "m", 4, 2, "2g.10gb", 9856, 28))
    assert instances(decide(cluster, pod("p", 1, memory=1000))) == [("m", "1g.5gb", 3)]
    assert reasons(decide(cluster, pod("p", 2, memory=15000))) == {"CardMigTopologyInfeasible": 1}


def test_a_pod_may_insist_on_whole_cards_or_on_instances():
    cluster = scenario(node("a", gpus=[mig("m"), gpu("g", index=1, memory=40960, mode="hami-core")]))
    for mode, card in (("mig", "m"), ("hami-core", "g")):
        assert cards(decide(cluster, pod("p", 1, memory=1000, annotations={"nvidia.com/vgpu-mode": mode}))) == [card]


def test_instances_of_one_card_are_on_one_numa_node():
    cluster = scenario(node("a", gpus=[mig("m")]))
    assert cards(decide(cluster, pod("p", 2, memory=4000, annotations=NUMA_BIND))) == ["m", "m"]


def test_a_numa_node_counts_by_the_instances_it_has_room_for():
    cluster = scenario(
        node("a", gpus=[mig("m0", numa=0), mig("m1", 1, numa=1), mig("m2", 2, numa=1)]),
        *[holder(f"x{i}", f"m{i}", 0, 8, "1g.5gb") for i in (1, 2)],
    )
    assert cards(decide(cluster, pod("p", 2, memory=4000, annotations=NUMA_BIND))) == ["m0", "m0"]


def test_mutex_gives_several_instances_of_a_card_that_was_idle_before_the_request():
    cluster = scenario(node("a", gpus=[mig("m0"), mig("m1", 1)]))
    assert cards(place(cluster, pod("p", 2, memory=4000), gpu_policy="mutex")) == ["m1", "m1"]
    assert cards(place(cluster, pod("q", 3, memory=4000), gpu_policy="mutex")) == ["m0"] * 3
    late = decide(cluster, pod("r", 1, memory=4000), gpu_policy="mutex")
    assert reasons(late) == {"ExclusiveDeviceAllocateConflict": 1}


def test_under_mutex_containers_of_one_pod_share_no_card():
    cluster = scenario(node("a", gpus=[mig("m0"), mig("m1", 1)]))
    both = [container("one", gpus=1, memory=4000), container("two", gpus=1, memory=4000)]
    assert cards(decide(cluster, pod("p", containers=both), gpu_policy="mutex")) == ["m1", "m0"]
    three = [*both, container("three", gpus=1, memory=4000)]
    assert decide(cluster, pod("p", containers=three), gpu_policy="mutex").node is None


def test_cards_that_register_geometries_of_before_hami_2_10_say_what_to_do():
    geometry = [[{"name": "1g.5gb", "memory": 5120, "count": 7}]]
    card = gpu("m", memory=40000, mode="mig", migtemplate=geometry)
    decision = decide(scenario(node("a", gpus=[card])), pod("p", 1, memory=4000))
    assert reasons(decision) == {"ModeNotFit": 1}
    assert "update HAMi's device plugin" in decision.rejected[0].message
    held = pod("x", 1, memory=4000, on="a", annotations={ALLOCATED: "m[0-3],NVIDIA,5120,14:;"})
    assert usage(scenario(node("a", gpus=[card]), held), "a") == [(1, 5120, 14)], "pods of that time count"


def linked(*taken, **scores):
    """Three cards in MIG mode with these pair scores, each given as `a_b`; 1 where none is given."""
    told = {pair.replace("_", ""): score for pair, score in scores.items()}
    pairs = [
        {"uuid": f"m{a}", "score": {f"m{b}": told.get(f"m{min(a, b)}m{max(a, b)}", 1) for b in range(3) if a != b}}
        for a in range(3)
    ]
    notes = {"hami.io/node-nvidia-score": json.dumps(pairs)}
    return scenario(node("a", gpus=[mig(f"m{i}", i) for i in range(3)], annotations=notes), *taken)


def test_topology_aware_looks_at_every_free_place_of_a_card():
    alone = linked(m0_m1=5, m0_m2=6, m1_m2=7)
    assert cards(decide(alone, pod("p", 1, memory=30000), gpu_policy="topology-aware")) == ["m0"], "5 + 6 are least"
    crowded = linked(holder("x", "m2", 0, 4, "3g.20gb"), m0_m1=5, m0_m2=6, m1_m2=7)
    # A place of 3g.20gb is left on m2 and two on the others: m2 counts 2 × 6 + 2 × 7, m1 2 × 5 + 7, m0 2 × 5 + 6.
    assert cards(decide(crowded, pod("p", 1, memory=15000), gpu_policy="topology-aware")) == ["m0"]
    weak = linked(holder("x", "m0", 0, 4, "3g.20gb"), m0_m1=6, m0_m2=6, m1_m2=5)
    # Card by card m1 would have the weakest links (11, as m2); by places m1 counts 6 + 2 × 5 and m0 4 × 6.
    assert cards(decide(weak, pod("p", 1, memory=15000), gpu_policy="topology-aware")) == ["m2"]


def test_topology_aware_takes_two_places_of_linked_cards_rather_than_of_one():
    cluster = linked(m0_m1=50)
    assert sorted(cards(decide(cluster, pod("p", 2, memory=4000), gpu_policy="topology-aware"))) == ["m0", "m1"]
    assert sorted(cards(decide(cluster, pod("p", 4, memory=15000), gpu_policy="topology-aware"))) == [
        "m0",
        "m0",
        "m1",
        "m1",
    ], "four places on three cards"


def test_topology_aware_passes_over_a_card_without_a_free_place():
    links = {"m0": {"m1": 1, "m2": 90}, "m1": {"m0": 1, "m2": 1}, "m2": {"m0": 90, "m1": 1}}
    scores = json.dumps([{"uuid": uuid, "score": score} for uuid, score in links.items()])
    cluster = scenario(
        node("a", gpus=[mig(f"m{i}", i) for i in range(3)], annotations={"hami.io/node-nvidia-score": scores}),
        holder("x", "m1", 0, 8),
    )
    decision = decide(cluster, pod("p", 1, memory=4000), gpu_policy="topology-aware")
    assert cards(decision)[0] in ("m0", "m2")


@pytest.mark.parametrize(
    ("about", "reason"), [({"healthy": False}, "CardNotHealth"), ({"type": "other"}, "CardTypeMismatch")]
)
def test_a_mig_card_that_will_not_do_says_why_and_not_that_it_is_only_one(about, reason):
    cluster = scenario(node("a", gpus=[mig("m", **about)]))
    wish = {"nvidia.com/use-gputype": "A100"}
    assert reasons(decide(cluster, pod("p", 2, memory=4000, annotations=wish))) == {reason: 1}


def test_mig_is_no_reason_where_no_mig_card_was_in_question():
    cordon = {"hami.io/device-cordon": "m"}
    cluster = scenario(node("a", gpus=[gpu("g0"), gpu("g1", index=1), mig("m", 2)], annotations=cordon))
    assert reasons(decide(cluster, pod("p", 3, memory=1000))) == {"AllocatedCardsInsufficientRequest": 1}


def test_a_mig_card_does_not_excuse_another_vendors_lack_of_cards():
    dcus = {"hami.io/node-dcu-register": "d0,4,16000,100,DCU-Z100,0,true:d1,4,16000,100,DCU-Z100,0,true:"}
    cluster = scenario(node("a", gpus=[mig("m")], annotations=dcus))
    wanted = Container("main", ResourceRequirements(limits={"hygon.com/dcunum": 3}))
    assert reasons(decide(cluster, pod("p", containers=[wanted]))) == {"NodeInsufficientDevice": 1}
