"""The baselines of the literature: their published scores, counted in plain loops, and what they choose."""

import random
from collections import Counter

import pytest

from tests.plugins.fragmentation.typicalpods import free_shares
from tests.scenario import cards, gpu, node, pod, running, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.plugins.baselines.random import RandomPlacement
from tonnage.plugins.catalog import ALWAYS, BASELINES, plugin_class

Wanted = tuple[int, int, int]
"""Processors, cards and thousandths of each."""


def session(cluster: Cluster, name: str) -> Session:
    return Session(cluster, [plugin_class(each)() for each in (*ALWAYS, name)])  # type: ignore[misc]


def asking(name: str, wanted: Wanted):
    cpu, gpus, share = wanted
    return pod(name, gpus or None, memory=share if gpus else None, cpu=str(cpu))


def thousandths(cluster: Cluster, name: str) -> list[int]:
    return [share // 1000 for share in free_shares(cluster, name)]


# -- the published scores, node by node


def best_fit(cluster: Cluster, name: str, wanted: Wanted) -> int:
    cpu, gpus, share = wanted
    free_cpu = int(cluster.columns.free[0, cluster.nodes[name].row])
    left = 0.5 * (free_cpu - cpu * 1000) / 128_000 + 0.5 * (sum(thousandths(cluster, name)) - gpus * share) / 8_000
    return int((1 - left) * 100)


def dot_product(cluster: Cluster, name: str, wanted: Wanted) -> int:
    cpu, gpus, share = wanted
    free_cpu = int(cluster.columns.free[0, cluster.nodes[name].row])
    product = free_cpu / 128_000 * (cpu * 1000 / 128_000)
    product += sum(thousandths(cluster, name)) / 8_000 * (gpus * share / 8_000)
    return int(100 * (1 - product / 2))


def gpu_packing(cluster: Cluster, name: str, wanted: Wanted) -> int:
    _, gpus, share = wanted
    free = thousandths(cluster, name)
    if not gpus:
        return 0
    if all(left == 1000 for left in free):
        return max(33 - len(free), len(free))
    used = sorted(left for left in free if left >= share)[:gpus]
    if 1000 in used:
        return max(50 - used.count(1000), 33)
    return max(100 - sum(left * 100 // 1000 for left in used) // 10, 50)


def gpu_clustering(cluster: Cluster, name: str, wanted: Wanted) -> int:
    _, gpus, share = wanted
    if not gpus:
        return 0
    kinds = set()
    for key in cluster.nodes[name].holdings:
        held = [card for use in cluster.nodes[name].uses(key) for card in use.cards]
        if held:
            kinds.add("part" if held[0].memory < 1000 else len(held))
    own = "part" if share < 1000 else gpus
    fuller = 25 * (8000 - sum(thousandths(cluster, name))) // 8000
    if own in kinds:
        return fuller + (75 if len(kinds) == 1 else 50)
    return fuller + (0 if kinds else 25)


@pytest.mark.parametrize("published", [best_fit, dot_product, gpu_packing, gpu_clustering])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_the_published_ones(published, seed: int) -> None:
    policy = published.__name__.replace("_", "-")
    rng = random.Random(seed)
    cluster = scenario(
        *[
            node(
                f"n{number}",
                gpus=[
                    gpu(f"n{number}/{card}", index=card, memory=1000, count=100)
                    for card in range(rng.choice([1, 2, 8]))
                ],
                cpu=str(rng.choice([16, 64, 96])),
            )
            for number in range(8)
        ]
    )
    with session(cluster, policy) as opened:
        for number in range(80):
            gpus = rng.choice([0, 1, 1, 1, 2])
            wanted = (rng.choice([1, 4, 8]), gpus, 1000 if gpus != 1 else rng.choice([320, 470, 810, 1000]))
            before = {name: published(cluster, name, wanted) for name in cluster.nodes}
            free = {name: thousandths(cluster, name) for name in cluster.nodes}
            decision = opened.place(make_task(asking(f"p{number}", wanted), cluster.vendors))
            if decision.node is None:
                continue
            told = {name: scores[policy] for name, scores in decision.scores.items()}
            assert told == {name: before[name] for name in told}
            best = max(told.values())
            assert decision.node == min(name for name, score in told.items() if score == best)
            if wanted[1] == 1:
                fitting = [left for left in free[decision.node] if left >= wanted[2]]
                position = free[decision.node].index(min(fitting))
                assert cards(decision) == [cluster.nodes[decision.node].devices[position].uuid]


# -- what a reader would expect


def test_gpu_packing_opens_neither_a_card_nor_a_node_if_it_can() -> None:
    cluster = scenario(
        node("a", gpus=2), node("b", gpus=2), node("c", gpus=2), running("x", on="c", gpu=1, memory=2000)
    )
    with session(cluster, "gpu-packing") as opened:
        shared = opened.place(make_task(pod("p", 1, memory=2000), cluster.vendors))
        assert cards(shared) == ["c/1"]
        assert cards(opened.place(make_task(pod("q", 1, memory=8000), cluster.vendors))) == ["c/0"]
        assert cards(opened.place(make_task(pod("r", 1, memory=8000), cluster.vendors))) == ["a/0"]


def test_gpu_clustering_keeps_kinds_of_pods_apart() -> None:
    cluster = scenario(
        node("a", gpus=8, gpu_memory=1000),
        node("b", gpus=8, gpu_memory=1000),
        running("part", on="a", gpu=0, memory=500),
        running("one", on="b", gpu=0, memory=1000),
    )
    with session(cluster, "gpu-clustering") as opened:
        assert opened.place(make_task(pod("p", 1, memory=300), cluster.vendors)).node == "a"
        assert opened.place(make_task(pod("q", 1, memory=1000), cluster.vendors)).node == "b"


# -- random


def random_session(cluster: Cluster, seed: int) -> Session:
    plugins = [plugin_class(each)() for each in ALWAYS]  # type: ignore[misc]
    return Session(cluster, [*plugins, RandomPlacement(RandomPlacement.Arguments(seed=seed))])


def drawn(seed: int, pods: int = 400) -> list[tuple[str | None, str]]:
    cluster = scenario(*[node(f"n{number}", gpus=4) for number in range(4)])
    found = []
    with random_session(cluster, seed) as opened:
        for number in range(pods):
            decision = opened.decide(make_task(pod(f"p{number}", 1, memory=10), cluster.vendors))
            found.append((decision.node, cards(decision)[0]))
    return found


def test_random_takes_every_node_and_card_about_equally_often() -> None:
    found = drawn(1, 1600)
    counts = Counter(card for _, card in found)
    assert len(counts) == 16
    assert all(60 < count < 140 for count in counts.values())


def test_random_is_the_same_for_the_same_seed_and_pod_and_another_for_others() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_random_does_not_depend_on_what_was_decided_before() -> None:
    cluster = scenario(*[node(f"n{number}", gpus=4) for number in range(4)])
    with random_session(cluster, 1) as opened:
        last = opened.decide(make_task(pod("p399", 1, memory=10), cluster.vendors))
    assert (last.node, cards(last)[0]) == drawn(1)[-1]


def test_baselines_leave_the_cards_to_no_other_plugin() -> None:
    cluster = scenario(node("a", gpus=1))
    for name in BASELINES:
        with session(cluster, name) as opened:
            assert {point for plugin, point in opened.registered if plugin == name} == {"batch node order", "GPU order"}
