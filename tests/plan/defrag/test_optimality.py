"""Plans against exact search on small clusters, and plans that are carried out step by step."""

import itertools
import random

import numpy as np
import pytest

from tests.plan.defrag.planning import FREE_GPUS, FREE_NODES, NOW, USABLE, kept, plan
from tests.scenario import node, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import MEMORY
from tonnage.framework.session import Session
from tonnage.model.timestamp import timestamp
from tonnage.plan.defrag.goals import Goal
from tonnage.plan.defrag.prices import Prices
from tonnage.plugins.defaults import default_plugins

CARD = 8000
PARTS = (1000, 2000, 3000, 4000, 5000, 6000)


def drawn(seed: int, nodes: int = 8, movable: int = 4, stuck: int = 6) -> Cluster:
    """A random cluster of nodes with two cards and with pods of which some may move."""
    draw = random.Random(f"plans {seed}")
    free = {(at, card): CARD for at in range(nodes) for card in range(2)}
    pods = []
    for number in range(movable + stuck):
        part = draw.choice(PARTS)
        place = draw.choice([one for one, left in free.items() if left >= part])
        free[place] -= part
        pods.append(
            kept(
                f"p{number}",
                on=f"n{place[0]}",
                gpu=place[1],
                memory=part,
                hours=draw.uniform(0.5, 30),
                owner="ReplicaSet" if number < movable else "",
            )
        )
    return scenario(*[node(f"n{at}", gpus=2, gpu_memory=CARD) for at in range(nodes)], *pods)


def best_by_exact_search(cluster: Cluster, prices: dict[str, float], rate: float) -> float:
    """The most that freed cards can be worth beyond the price of moves, over all places of all pods that may move."""
    cards = [(name, at) for name in cluster.nodes for at in range(2)]
    used = dict.fromkeys(cards, 0)
    places, sizes = {}, {}
    for key in cluster.running:
        held = cluster.held(key)
        assert held is not None
        (use,) = held.vendors[0].cards
        card = held.node, cluster.nodes[held.node].positions[use.uuid]
        if key in prices:
            places[key], sizes[key] = card, use.memory
        else:
            used[card] += use.memory
    keys = sorted(prices)
    now = {card: used[card] + sum(sizes[key] for key in keys if places[key] == card) for card in cards}
    begin = sum(not amount for amount in now.values())
    best = 0.0
    for chosen in itertools.product(cards, repeat=len(keys)):
        after = dict(used)
        for key, card in zip(keys, chosen, strict=True):
            after[card] += sizes[key]
        if max(after.values()) > CARD:
            continue
        price = sum(prices[key] for key, card in zip(keys, chosen, strict=True) if card != places[key])
        best = max(best, rate * (sum(not amount for amount in after.values()) - begin) - price)
    return best


def priced(cluster: Cluster) -> dict[str, float]:
    """The price of moving each pod, as documented: lost hours on its part of a card and on its cores, and the move."""
    prices = Prices()
    result: dict[str, float] = {}
    for key, task in cluster.running.items():
        if task.pod.metadata.controller is None:
            continue
        held = cluster.held(key)
        assert held is not None
        hours = (NOW - timestamp(task.pod.status.startTime or "")) / 3600 + 2 / 60
        part = held.vendors[0].cards[0].memory / CARD
        cores = dict(task.requests).get("cpu", 0) / 1000
        result[key] = hours * (part * prices.gpu_hour_lost + cores * prices.cpu_hour_lost) + prices.move
    return result


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_is_within_two_percent_of_the_best_and_the_bound_is_one(seed: int) -> None:
    cluster = drawn(seed)
    found = plan(cluster, FREE_GPUS)
    best = best_by_exact_search(cluster, priced(cluster), 24.0)
    assert found.value - found.price >= 0.98 * best - 1e-6
    assert found.bound is not None
    assert found.bound >= best - 1e-6


@pytest.mark.parametrize("goal", [FREE_GPUS, FREE_NODES, USABLE], ids=lambda goal: goal.kind)
@pytest.mark.parametrize("seed", [11, 12])
def test_every_step_can_be_made_in_its_turn_and_comes_to_what_the_plan_says(seed: int, goal: Goal) -> None:
    """The plan is carried out on the cluster itself: each pod goes, and another one comes where the plan says."""
    cluster = drawn(seed, nodes=10, movable=14, stuck=4)
    found = plan(cluster, goal, prices=Prices(horizon="100h"))
    assert found.left_out == []
    for move in found.moves:
        task = cluster.running[move.pod]
        assert cluster.holders[move.pod] == move.node
        cluster.remove_pod(move.pod)
        with Session(cluster, default_plugins("binpack", "binpack")) as session:
            among = np.arange(cluster.columns.size) == cluster.nodes[move.to].row
            decision = session.decide(task, among)
            assert decision.node == move.to, move
            assert sorted(device.uuid for device in decision.devices) == move.to_devices
            session.take(decision)
            cluster.confirm(task.key)
    size = cluster.columns.size
    whole = (cluster.columns.card_free[MEMORY, :, :size] == CARD).sum()
    assert int(whole) == found.after.gpus_whole
    assert sum(not state.holdings for state in cluster.states) == found.after.nodes_free
