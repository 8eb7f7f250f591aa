"""KAI's placement plugins: which node, and which of its cards."""

import math
import random

import pytest

from tests.plugins.scoring.kai import kai, place, placement, session
from tests.scenario import cards, gpu, node, part, plain, pod, running, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import Plugin
from tonnage.model.pod import Pod
from tonnage.plugins.gpus.gpupack import GpuPack
from tonnage.plugins.gpus.gpusharingorder import GpuSharingOrder
from tonnage.plugins.gpus.gpuspread import GpuSpread
from tonnage.plugins.scoring.nominatednode import NominatedNode
from tonnage.plugins.scoring.resourcetype import ResourceType


def scores(cluster: Cluster, wanted: Pod, *plugins: Plugin) -> dict[str, float]:
    """The total of every node that the pod fits on."""
    with session(cluster, *plugins) as opened:
        found = opened.decide(make_task(wanted, cluster.vendors)).scores
        return {name: found[name]["total"] for name in sorted(found)}


# -- nodes


def test_binpack_puts_a_gpu_pod_on_the_fuller_node():
    cluster = scenario(plain("n0", 2), plain("n1", 2), pod("x", 1, on="n1"))
    assert place(cluster, pod("p", 1), *kai()).node == "n1"


def test_spread_puts_a_gpu_pod_on_the_emptier_node():
    cluster = scenario(plain("n0", 2), plain("n1", 2), pod("x", 1, on="n0"))
    assert place(cluster, pod("p", 1), placement(gpu="spread")).node == "n1"


def test_the_scores_of_packing_range_over_all_nodes_even_full_ones():
    cluster = scenario(plain("n1", 4), plain("n2", 4), plain("n3", 4), node("n4"))
    cluster.upsert_pod(pod("x", 4, on="n1"))
    cluster.upsert_pod(pod("y", 1, on="n2"))
    assert scores(cluster, pod("p", 1), placement()) == {"n2": 2.25, "n3": 0.0}
    # A part of a card fits on the full node too, if one of its cards is shared.
    cluster.remove_pod("default/x")
    cluster.upsert_pod(part("x1", 0.1, on="n1", group="g1"))
    for number in range(3):
        cluster.upsert_pod(pod(f"w{number}", 1, on="n1"))
    assert scores(cluster, part("p", 0.5), placement()) == {"n1": 9.0, "n2": 2.25, "n3": 0.0}


def test_where_all_are_equally_free_all_score_nine():
    cluster = scenario(*[plain(f"n{gpus}", gpus) for gpus in (1, 2, 4)])
    for gpus in (2, 4):
        cluster.upsert_pod(pod(f"x{gpus}", gpus - 1, on=f"n{gpus}"))
    assert scores(cluster, pod("p", 1), placement()) == {"n1": 9.0, "n2": 9.0, "n4": 9.0}


def test_where_nothing_is_free_anywhere_all_score_nothing():
    cluster = scenario(plain("n0", 1), plain("n1", 1))
    for name in ("n0", "n1"):
        cluster.upsert_pod(part(f"x-{name}", 0.5, on=name, group="g"))
    assert scores(cluster, part("p", 0.5), placement()) == {"n0": 0.0, "n1": 0.0}


def test_a_pod_without_cards_is_packed_by_processors():
    cluster = scenario(node("n0", cpu="8"), node("n1", cpu="8"), node("n2", cpu="16"))
    cluster.upsert_pod(pod("x", on="n1", cpu="6"))
    assert scores(cluster, pod("p", cpu="1"), placement()) == {
        "n0": pytest.approx(9 * (1 - 6 / 14)),
        "n1": 9.0,
        "n2": 0.0,
    }
    assert scores(cluster, pod("p", cpu="1"), placement(cpu="spread")) == {"n0": 1.0, "n1": 0.25, "n2": 1.0}


def test_a_node_that_does_not_say_how_many_processors_it_has_scores_nothing():
    bare = node("n0")
    del bare.status.allocatable["cpu"]
    cluster = scenario(bare, node("n1", cpu="8"), node("n2", cpu="4"))
    assert scores(cluster, pod("p"), placement()) == {"n0": 0.0, "n1": 0.0, "n2": 9.0}
    assert scores(cluster, pod("p"), placement(cpu="spread")) == {"n0": 0.0, "n1": 1.0, "n2": 1.0}


def test_spreading_counts_the_free_parts_of_shared_cards_in_hundredths():
    cluster = scenario(plain("n0", 2, gpu_memory=1000), part("x", memory=333, on="n0", group="g"))
    assert scores(cluster, pod("p", 1), placement(gpu="spread")) == {"n0": pytest.approx((1 + 0.66) / 2)}


def test_packing_does_not_count_shared_cards_however_empty():
    cluster = scenario(plain("n0", 2), plain("n1", 3), part("x", 0.01, on="n1", group="g"))
    assert scores(cluster, pod("p", 1), placement()) == {"n0": 9.0, "n1": 9.0}


def test_cards_whose_users_are_leaving_count_as_free():
    cluster = scenario(plain("n0", 2), plain("n1", 2), plain("n2", 2))
    for name, leaves in (("n0", True), ("n1", False)):
        cluster.upsert_pod(pod(f"x-{name}", 1, on=name, terminating=leaves))
    assert scores(cluster, pod("p", 1), placement()) == {"n0": 0.0, "n1": 9.0, "n2": 0.0}
    assert scores(cluster, pod("p", 1), placement(gpu="spread")) == {"n0": 1.0, "n1": 0.5, "n2": 1.0}


def test_a_pod_that_begins_to_leave_changes_the_scores_of_an_open_session():
    cluster = scenario(plain("n0", 2), plain("n1", 2), pod("x", 1, on="n0"))
    with session(cluster, placement()) as opened:
        wanted = make_task(pod("p", 1), cluster.vendors)
        assert opened.decide(wanted).node == "n0"
        cluster.upsert_pod(pod("x", 1, on="n0", terminating=True))
        assert {name: s["total"] for name, s in opened.decide(wanted).scores.items()} == {"n0": 9.0, "n1": 9.0}


def test_processors_of_leaving_pods_count_as_free():
    cluster = scenario(node("n0", cpu="8"), pod("x", on="n0", cpu="4", terminating=True))
    assert scores(cluster, pod("p"), placement(cpu="spread")) == {"n0": 1.0}


def test_on_hami_nodes_cards_in_use_are_not_idle():
    cluster = scenario(node("n0", gpus=2), node("n1", gpus=2), running("x", on="n1", memory=10))
    assert place(cluster, pod("p", 1, memory=10), placement()).node == "n1"


def test_cards_held_by_nobody_knows_whom_are_not_idle():
    cluster = scenario(node("n0", gpus=2), node("n1", gpus=2), pod("x", 1, on="n1", memory=10))
    assert scores(cluster, pod("p", 1, memory=10), placement()) == {"n0": 0.0, "n1": 9.0}


def test_pods_that_ask_for_mig_instances_are_placed_by_cards():
    mig = {"nvidia.com/mig-1g.5gb": 1}
    nodes = [plain("n0", 2), plain("n1", 2)]
    for one in nodes:
        one.status.allocatable.update(mig)
    cluster = scenario(*nodes, pod("x", 1, on="n1"), node("n2", cpu="1"))
    assert place(cluster, pod("p", **mig), placement()).node == "n1"


@pytest.mark.parametrize("seed", range(40))
def test_the_scores_are_those_of_a_plain_recount(seed):
    draw = random.Random(seed)
    names = [f"n{i}" for i in range(draw.randint(1, 6))]
    cluster = scenario(*[plain(name, draw.randint(1, 4), gpu_memory=draw.choice([100, 300])) for name in names])
    for number in range(draw.randint(0, 12)):
        on, leaves = draw.choice(names), draw.random() < 0.3
        if draw.random() < 0.5:
            cluster.upsert_pod(pod(f"x{number}", 1, on=on, terminating=leaves))
        else:
            share, group = draw.choice([0.07, 0.25, 0.29]), draw.choice("gh")
            cluster.upsert_pod(part(f"x{number}", share, on=on, group=group, terminating=leaves))
    idle, share = {}, {}
    for name in names:
        state = cluster.nodes[name]
        held = [(key, card) for key in state.holdings for use in state.uses(key) for card in use.cards]
        unknown = sum(use.unknown for key in state.holdings for use in state.uses(key))
        idle[name], share[name] = 0, 0.0
        for device in state.devices:
            here = [(key, card.memory) for key, card in held if card.uuid == device.uuid]
            staying = sum(memory for key, memory in here if key not in cluster.leaving)
            going = sum(memory for _, memory in here) - staying
            if not any(key not in cluster.leaving for key, _ in here):
                idle[name] += 1
                share[name] += 1
            else:
                used = math.ceil((staying + going) / device.memory * 100) / 100
                share[name] += max(0, min(1, 1 - used + math.ceil(going / device.memory * 100) / 100))
        idle[name] = max(0, idle[name] - unknown)
        share[name] = max(0.0, share[name] - unknown) / len(state.devices)
    least, most = min(idle.values()), max(idle.values())
    if most == 0:
        packed = dict.fromkeys(names, 0.0)
    elif least == most:
        packed = dict.fromkeys(names, 9.0)
    else:
        packed = {name: 9 * (1 - (idle[name] - least) / (most - least)) for name in names}
    wanted = part("p", 0.01)
    for found, expected in (
        (scores(cluster, wanted, placement()), packed),
        (scores(cluster, wanted, placement(gpu="spread")), share),
    ):
        assert found == {name: pytest.approx(expected[name]) for name in found}


# -- sharing order, resource type, nominated node


def test_a_part_goes_where_a_shared_card_has_room_and_onto_that_card():
    cluster = scenario(plain("n0", 2), plain("n1", 2), part("x", 0.5, on="n1", group="1"))
    decision = place(cluster, part("p", 0.5), *kai())
    assert (decision.node, cards(decision)) == ("n1", ["n1/0"])
    assert decision.scores["n1"]["gpusharingorder"] == 10_000


def test_a_shared_card_without_room_is_worth_nothing():
    cluster = scenario(plain("n0", 2), plain("n1", 2), part("x", 0.6, on="n1", group="1"))
    assert scores(cluster, part("p", 0.5), GpuSharingOrder()) == {"n0": 0.0, "n1": 0.0}
    assert scores(cluster, part("p", 0.4), GpuSharingOrder()) == {"n0": 0.0, "n1": 10_000.0}


def test_a_card_whose_users_are_all_leaving_is_not_shared():
    cluster = scenario(plain("n0", 2), part("x", 0.5, on="n0", group="1", terminating=True))
    assert scores(cluster, part("p", 0.5), GpuSharingOrder()) == {"n0": 0.0}
    cluster.upsert_pod(part("y", 0.5, on="n0", group="1"))
    assert scores(cluster, part("p", 0.5), GpuSharingOrder()) == {"n0": 10_000.0}


@pytest.mark.parametrize("wanted", [pod("p", 1), pod("p", 1, memory=10), pod("p")])
def test_whole_cards_and_no_cards_share_nothing(wanted):
    cluster = scenario(plain("n0", 2), part("x", 0.5, on="n0", group="1"))
    assert scores(cluster, wanted, GpuSharingOrder()) == {"n0": 0.0}


def test_parts_of_hamis_cards_are_shared_too():
    cluster = scenario(node("n0", gpus=2), node("n1", gpus=2), running("x", on="n1", memory=10))
    assert place(cluster, pod("p", 1, memory=10), GpuSharingOrder(), GpuPack()).node == "n1"
    assert scores(cluster, pod("p", 1), GpuSharingOrder()) == {"n0": 0.0, "n1": 0.0}


def test_a_pod_without_cards_prefers_a_node_without():
    cluster = scenario(plain("n0", 2), node("n1"), node("n2", gpus=1))
    vanished = node("n3", annotations={"hami.io/node-handshake": "Deleted_x"})
    vanished.status.allocatable["nvidia.com/gpu"] = 10
    cluster.upsert_node(vanished)
    mixed = node("n4")
    mixed.status.allocatable["nvidia.com/mig-1g.5gb"] = 7
    cluster.upsert_node(mixed)
    expected = {"n0": 0.0, "n1": 10.0, "n2": 0.0, "n3": 0.0, "n4": 0.0}
    assert scores(cluster, pod("p"), ResourceType()) == expected
    assert scores(cluster, pod("p", 1), ResourceType()) == {"n0": 0.0, "n2": 0.0}


def test_the_nominated_node_is_taken_if_the_pod_fits_there():
    cluster = scenario(plain("n0", 1), plain("n1", 1))
    assert place(cluster, pod("p", 1, nominated="n1"), *kai()).node == "n1"
    assert place(cluster, pod("q", 1, nominated="n1"), *kai()).node == "n0"
    assert place(cluster, pod("r", nominated="nowhere"), *kai()).node == "n0"


def test_pods_nominated_to_different_nodes_are_told_apart():
    cluster = scenario(plain("n0", 2), plain("n1", 2))
    with session(cluster, NominatedNode()) as opened:
        found = [
            opened.decide(make_task(pod(f"p{n}", 1, nominated=n), cluster.vendors)).node for n in ("n1", "n0", None)
        ]
    assert found == ["n1", "n0", "n0"]


# -- cards


def two_shared() -> Cluster:
    return scenario(plain("n0", 2), part("y", 0.7, on="n0", group="0"), part("x", 0.5, on="n0", group="1"))


def test_packing_takes_the_fuller_card_and_spreading_the_emptier():
    assert cards(place(two_shared(), part("p", 0.2), GpuPack())) == ["n0/0"]
    assert cards(place(two_shared(), part("p", 0.2), GpuSpread())) == ["n0/1"]


def test_packing_opens_a_card_last_and_spreading_first():
    cluster = scenario(plain("n0", 2), part("x", 0.5, on="n0", group="0"))
    with session(cluster, GpuPack()) as opened:
        assert cards(opened.decide(make_task(part("p", 0.2), cluster.vendors))) == ["n0/0"]
    with session(cluster, GpuSpread()) as opened:
        assert cards(opened.decide(make_task(part("p", 0.2), cluster.vendors))) == ["n0/1"]


@pytest.mark.parametrize("order", [GpuPack, GpuSpread])
def test_of_equal_cards_the_lowest_are_taken(order):
    assert cards(place(scenario(plain("n0", 4)), pod("p", 2), order())) == ["n0/0", "n0/1"]


def test_four_parts_after_one_another():
    cluster = scenario(plain("n0", 2), part("x", 0.5, on="n0", group="0", priority=100))
    found = [cards(place(cluster, part(f"p{i}", share), *kai())) for i, share in enumerate((0.6, 0.5, 0.5, 0.3))]
    assert found == [["n0/1"], ["n0/0"], [], ["n0/1"]]


def test_spread_over_nodes_and_packed_on_cards():
    cluster = scenario(plain("n0", 2), plain("n1", 3), part("x", 0.5, on="n0", group="0"))
    found = [place(cluster, part(name, 0.5), GpuPack(), placement(gpu="spread")) for name in "pq"]
    assert [(decision.node, cards(decision)) for decision in found] == [("n1", ["n1/0"])] * 2


def test_a_card_without_memory_counts_as_unused():
    cluster = scenario(node("n0", gpus=[gpu("g0", memory=0), gpu("g1", index=1, memory=0)]))
    assert cards(place(cluster, pod("p", 1, memory=0, percentage=0, cores=10), GpuPack())) == ["g0"]
