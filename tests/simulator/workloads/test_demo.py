import json
import random
from collections import Counter
from itertools import islice, pairwise, takewhile
from statistics import mean

import pytest

from tonnage.manifests.read import Manifests, read_bytes
from tonnage.model.resources import amounts, effective_request
from tonnage.model.selection import untolerated
from tonnage.model.wire import encode
from tonnage.simulator.objects import GPU, GPU_CORES, GPU_MEMORY, GPU_PERCENTAGE, REGISTER, USE_TYPE
from tonnage.simulator.workloads.demo import (
    PERIOD,
    demo_arrivals,
    demo_nodes,
    pool_sizes,
    target,
)

HOUR = 3600.0


def cards_of(node):
    return json.loads(node.annotations[REGISTER])


def arrivals_until(time, nodes_count, gpus, seed=1):
    return list(takewhile(lambda arrival: arrival.time < time, demo_arrivals(nodes_count, gpus, random.Random(seed))))


def limits_of(pod):
    return amounts(pod.spec.containers[0].resources.limits)


def demand(pod, card_memory):
    """How many average cards a pod keeps busy."""
    limits = limits_of(pod)
    if GPU not in limits:
        return 0.0
    share = limits[GPU_MEMORY] / card_memory if GPU_MEMORY in limits else limits.get(GPU_PERCENTAGE, 100) / 100
    return limits[GPU] * max(share, limits.get(GPU_CORES, 0) / 100)


def test_the_same_seed_invents_the_same():
    assert demo_nodes(9, 8, random.Random(5)) == demo_nodes(9, 8, random.Random(5))
    first, second = (list(islice(demo_arrivals(9, 8, random.Random(5)), 200)) for _ in range(2))
    assert first == second


def test_another_seed_invents_something_else():
    assert demo_nodes(3, 8, random.Random(5)) != demo_nodes(3, 8, random.Random(6))
    first, second = (list(islice(demo_arrivals(3, 8, random.Random(seed)), 20)) for seed in (5, 6))
    assert first != second


def test_the_global_random_numbers_are_left_alone():
    random.seed(1)
    before = random.getstate()
    demo_nodes(3, 8, random.Random(1))
    list(islice(demo_arrivals(3, 8, random.Random(1)), 50))
    assert random.getstate() == before


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 20, 1234])
def test_pools_share_all_nodes(count):
    sizes = pool_sizes(count)
    assert sum(size for _, size in sizes) == count
    assert count == 0 or sizes[0][0].name == "h100"


def test_nodes_look_like_real_ones():
    nodes = demo_nodes(20, 8, random.Random(1))
    assert Counter(node.labels["pool"] for node in nodes) == {"h100": 9, "a100": 6, "v100": 3, "t4": 2}
    assert nodes[2].name == "h100-003"
    assert len({node.name for node in nodes}) == 20
    assert all(node.labels["kubernetes.io/hostname"] == node.name for node in nodes)
    assert [node.labels["pool"] for node in nodes if node.spec.taints] == ["t4", "t4"]
    uuids = [card["id"] for node in nodes for card in cards_of(node)]
    assert len(set(uuids)) == 160
    assert all(uuid.startswith("GPU-") and len(uuid) == 40 for uuid in uuids)
    for node in nodes:
        cards = cards_of(node)
        assert [card["index"] for card in cards] == list(range(8))
        assert [card["numa"] for card in cards] == [0] * 4 + [1] * 4
        assert all((c["count"], c["devcore"], c["health"]) == (10, 100, True) for c in cards)
        assert amounts(node.status.allocatable)[GPU] == 80


@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 8])
def test_everything_invented_reads_as_manifests(gpus):
    nodes = demo_nodes(4, gpus, random.Random(1))
    pods = [arrival.pod for arrival in islice(demo_arrivals(4, gpus, random.Random(1)), 300)]
    items = [{"apiVersion": "v1", "kind": type(thing).__name__} | json.loads(encode(thing)) for thing in nodes + pods]
    manifests = Manifests()
    read_bytes(encode({"apiVersion": "v1", "kind": "List", "items": items}), "invented", manifests)
    assert manifests.problems == []
    assert (manifests.nodes, manifests.pods) == (nodes, pods)


@pytest.mark.parametrize(("nodes_count", "gpus"), [(1, 1), (1, 8), (3, 2), (8, 8), (40, 4)])
def test_every_pod_fits_on_some_empty_node(nodes_count, gpus):
    nodes = demo_nodes(nodes_count, gpus, random.Random(1))
    for arrival in islice(demo_arrivals(nodes_count, gpus, random.Random(1)), 500):
        request, limits, annotations = effective_request(arrival.pod), limits_of(arrival.pod), arrival.pod.annotations
        assert any(
            untolerated(arrival.pod.spec.tolerations or [], node.spec.taints or []) is None
            and all(request.get(name, 0) <= amounts(node.status.allocatable)[name] for name in ("cpu", "memory"))
            and limits.get(GPU, 0) <= len(cards_of(node))
            and limits.get(GPU_MEMORY, 0) <= cards_of(node)[0]["devmem"]
            and annotations.get(USE_TYPE, "") in cards_of(node)[0]["type"].upper()
            for node in nodes
        ), arrival


def test_the_workload_is_a_mix():
    arrivals = arrivals_until(24 * HOUR, 8, 8)
    limits = [limits_of(arrival.pod) for arrival in arrivals]
    assert {size.get(GPU, 0) for size in limits} >= {0, 1, 2, 4}
    for name in (GPU_MEMORY, GPU_PERCENTAGE, GPU_CORES):
        assert 0.1 < sum(name in each for each in limits) / len(limits) < 0.9
    whole = sum(GPU in each and GPU_MEMORY not in each and GPU_PERCENTAGE not in each for each in limits)
    assert 0.1 < whole / len(limits) < 0.3
    assert 0.0 < sum(USE_TYPE in arrival.pod.annotations for arrival in arrivals) / len(arrivals) < 0.1
    assert len({arrival.pod.metadata.namespace for arrival in arrivals}) == 5
    assert len({arrival.pod.spec.priority for arrival in arrivals}) > 2
    assert len({arrival.pod.key for arrival in arrivals}) == len(arrivals)


def test_times_ascend_and_timestamps_follow_them():
    arrivals = arrivals_until(12 * HOUR, 8, 8)
    assert all(one.time < other.time for one, other in pairwise(arrivals))
    stamps = [arrival.pod.metadata.creationTimestamp for arrival in arrivals]
    assert stamps == sorted(stamps)
    assert stamps[0].startswith("2026-01-05T06:0")
    assert all(60 < arrival.duration <= 12 * HOUR for arrival in arrivals)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("nodes_count", "gpus"), [(8, 8), (40, 8), (30, 2)])
def test_demand_hovers_around_what_there_is(nodes_count, gpus, seed):
    nodes = demo_nodes(nodes_count, gpus, random.Random(seed))
    card_memory = mean(card["devmem"] for node in nodes for card in cards_of(node))
    arrivals = arrivals_until(36 * HOUR, nodes_count, gpus, seed)
    sizes = [(arrival, demand(arrival.pod, card_memory)) for arrival in arrivals]
    shares = {
        hour: sum(size for arrival, size in sizes if arrival.time <= hour * HOUR < arrival.time + arrival.duration)
        / (nodes_count * gpus)
        for hour in range(2, 36)
    }
    assert 0.85 < sum(shares.values()) / len(shares) < 1.0
    assert all(0.7 < share < 1.25 for share in shares.values())
    assert max(shares.values()) > 0.98
    assert min(shares.values()) < 0.92


def test_the_target_is_a_slow_wave():
    assert target(PERIOD / 4) == pytest.approx(1.05)
    assert target(3 * PERIOD / 4) == pytest.approx(0.85)


def test_no_nodes_get_no_pods():
    assert list(demo_arrivals(0, 8, random.Random(1))) == []
    assert demo_nodes(0, 8, random.Random(1)) == []
