"""Faults between two replicas: each a function that does harm to a pair of them while pods come and go."""

import signal
import threading
import time

from tests.chaos.faults import BINDING, PATIENCE, Fault, Ground, enlisting
from tests.chaos.front import ANSWER, REQUEST, Rule
from tests.chaos.replicas import Pair, Side
from tests.chaos.traffic import sharing
from tests.e2e.replicating import HOSTS
from tonnage.lab.api import pods_path

KINDS: dict[str, Fault[Pair]] = {}
"""All kinds, by what happens."""


_kind = enlisting(KINDS)


@_kind("replicas: leader killed while it binds")
def killed_while_binding(ground: Ground[Pair]) -> str:
    leader, other = ground.arena.leader()
    where = ground.rng.choice([REQUEST, ANSWER])
    with leader.front.rule(Rule("POST", BINDING, times=1, holds=where)) as rule:
        if not rule.reached.wait(PATIENCE):
            return ""
        leader.kill()
        rule.drop()
    seconds = ground.arena.until_leading(other)
    leader.start()
    return f"Binding {'not ' if where is REQUEST else ''}applied, replaced after {seconds:.1f} s"


@_kind("replicas: leader stands still until another leads, and goes on")
def paused_past_the_lease(ground: Ground[Pair]) -> str:
    leader, other = ground.arena.leader()
    leader.signal(signal.SIGSTOP)
    try:
        seconds = ground.arena.until_leading(other)
        time.sleep(ground.rng.uniform(0.0, 1.0))
    finally:
        leader.signal(signal.SIGCONT)
    return f"replaced after {seconds:.1f} s"


@_kind("replicas: the Lease is taken away by another writer, again and again")
def lease_flaps(ground: Ground[Pair]) -> str:
    for turn in range(8):
        ground.arena.give_lease([*HOSTS, "nobody-knows-me"][turn % 3])
        time.sleep(ground.rng.choice([0.1, 0.3, 0.6, 1.0]))
    return "8 times"


@_kind("replicas: leader cut off from the API server until another leads")
def cut_off(ground: Ground[Pair]) -> str:
    leader, other = ground.arena.leader()
    leader.front.stalled.set()
    try:
        with leader.front.rule(Rule("", "", holds=REQUEST)) as rule:
            seconds = ground.arena.until_leading(other)
            rule.drop()
    finally:
        leader.front.stalled.clear()
    return f"{rule.met} requests lost, replaced after {seconds:.1f} s"


@_kind("replicas: both killed and started again")
def both_restarted(ground: Ground[Pair]) -> str:
    sides = list(ground.arena.sides)
    ground.rng.shuffle(sides)
    for side in sides:
        side.kill()
    for side in sides:
        side.start()
    return f"{sides[0].host} first"


@_kind("replicas: leader killed while it answers a question that was handed on")
def killed_with_a_question(ground: Ground[Pair]) -> str:
    arena, name = ground.arena, f"by-hand-{ground.rng.randrange(10**9)}"
    leader, other = arena.leader()
    arena.api.create_pods([sharing(name, 1, 1000, 5, "nobody")])
    try:
        return _asked_by_hand(ground, leader, other, name)
    finally:
        arena.delete_pod(name)


def _asked_by_hand(ground: Ground[Pair], leader: Side, other: Side, name: str) -> str:
    """Ask the one that does not lead to bind a pod, and kill the leader while it does."""
    pod = ground.arena.api.get(f"{pods_path()}/{name}")
    names = [f"n{number:02}" for number in range(ground.arena.nodes)]
    found = other.replica.extender.post("/filter", {"Pod": pod, "NodeNames": names})["NodeNames"]
    if not found:
        return ""
    asked = {"PodName": name, "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": found[0]}
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(other.replica.extender.post("/bind", asked)["Error"]))
    with leader.front.rule(Rule("POST", f"/{name}/binding$", times=1, holds=REQUEST)) as rule:
        asking.start()
        if not rule.reached.wait(PATIENCE):
            asking.join(60)
            return ""
        leader.kill()
        rule.drop()
    asking.join(60)
    assert answers, "the question was not answered"
    assert answers[0], "the pod is said to be bound"
    assert not ground.arena.api.get(f"{pods_path()}/{name}")["spec"].get("nodeName")
    seconds = ground.arena.until_leading(other)
    leader.start()
    return f"replaced after {seconds:.1f} s"
