"""The kinds of faults: each a function that does harm to an arena while pods come and go.

A fault leaves everything running when it returns. What it says about itself goes into the record; an empty text means
that what it waits for did not come about, so that it does not count.
"""

import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from tests.chaos.arena import FAILURES, Arena
from tests.chaos.front import ANSWER, REQUEST, Rule
from tests.chaos.traffic import Traffic, sharing
from tests.e2e.extending import SCHEDULER
from tests.scenario import REGISTER
from tonnage.lab.api import ApiError, pods_path
from tonnage.lab.player import LOCK

BINDING = r"/pods/[^/]+/binding$"
FILTER, BIND, WEBHOOK = "^/filter$", "^/bind$", "^/webhook$"
PATIENCE = 60.0
WHILE = 1.3
"""How many seconds a fault lasts that is not over at once."""
GHOST = "nobody-knows-me"


A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., str])


class Ground(NamedTuple, Generic[A]):
    """What a fault works on."""

    arena: A
    traffic: Traffic
    rng: random.Random


Fault = Callable[[Ground[A]], str]
KINDS: dict[str, Fault[Arena]] = {}
"""All kinds, by what happens."""


def enlisting(kinds: dict[str, F]) -> Callable[[str], Callable[[F], F]]:
    """A decorator that puts a fault among these kinds, by what happens."""

    def kind(title: str) -> Callable[[F], F]:
        def enlist(fault: F) -> F:
            kinds[title] = fault
            return fault

        return enlist

    return kind


kind = enlisting(KINDS)


# -- the extender dies


@kind("extender killed before filter's answer")
def killed_in_filter(ground: Ground[Arena]) -> str:
    with ground.arena.side.rule(Rule("POST", FILTER, times=1, holds=ANSWER)) as rule:
        return _killed_when(ground, rule)


@kind("extender killed between filter and bind, the bind lost")
def killed_before_bind(ground: Ground[Arena]) -> str:
    with ground.arena.side.rule(Rule("POST", BIND, times=1, holds=REQUEST)) as rule:
        return _killed_when(ground, rule)


@kind("extender killed between filter and bind, the next one asked to bind")
def killed_before_bind_that_comes(ground: Ground[Arena]) -> str:
    with ground.arena.side.rule(Rule("POST", BIND, times=1, holds=REQUEST)) as rule:
        return _killed_when(ground, rule, drops=False)


@kind("extender killed while its Binding is on the way, not applied")
def killed_before_binding(ground: Ground[Arena]) -> str:
    with ground.arena.front.rule(Rule("POST", BINDING, times=1, holds=REQUEST)) as rule:
        return _killed_when(ground, rule)


@kind("extender killed after its Binding was applied, before the answer")
def killed_after_binding(ground: Ground[Arena]) -> str:
    with ground.arena.front.rule(Rule("POST", BINDING, times=1, holds=ANSWER)) as rule:
        return _killed_when(ground, rule)


def _killed_when(ground: Ground[Arena], rule: Rule, drops: bool = True) -> str:
    """Kill the extender once the rule holds a message, drop that, and start another; or deliver it to the other."""
    if not rule.reached.wait(PATIENCE):
        return ""
    ground.arena.kill_extender()
    if drops:
        rule.drop()
        time.sleep(ground.rng.uniform(0.0, 0.5))
    ground.arena.start_extender()
    rule.let_go()
    return "killed and started again"


@kind("extender stopped in order and started again")
def restarted(ground: Ground[Arena]) -> str:
    ground.arena.extender.stop()
    ground.arena.start_extender()
    return "restarted"


@kind("extender paused")
def paused(ground: Ground[Arena]) -> str:
    seconds = ground.rng.uniform(0.5, 3.0)
    ground.arena.pause_extender(seconds)
    return f"for {seconds:.1f} s"


@kind("extender's clock jumps")
def clock_jumps(ground: Ground[Arena]) -> str:
    seconds = ground.rng.choice([-86400.0, -3600.0, -61.0, 61.0, 3600.0, 86400.0 * 400])
    ground.arena.shift_clock(seconds)
    time.sleep(WHILE)
    return f"by {seconds:+.0f} s"


# -- the API server, as the extender sees it


@kind("API server killed and started again")
def api_server_restarted(ground: Ground[Arena]) -> str:
    pause = ground.rng.uniform(0.0, 1.0)
    ground.arena.restart_api_server(pause)
    return f"away for more than {pause:.1f} s"


@kind("watch connections cut")
def watches_cut(ground: Ground[Arena]) -> str:
    cuts = 0
    for _ in range(ground.rng.randrange(1, 5)):
        cuts += ground.arena.front.cut()
        time.sleep(ground.rng.uniform(0.0, 0.4))
    return f"{cuts} connections"


@kind("watch connections deliver nothing for a while")
def watches_stalled(ground: Ground[Arena]) -> str:
    seconds = ground.rng.uniform(1.0, 3.0)
    ground.arena.front.stalled.set()
    try:
        time.sleep(seconds)
    finally:
        ground.arena.front.stalled.clear()
    return f"for {seconds:.1f} s"


@kind("API server slow")
def api_server_slow(ground: Ground[Arena]) -> str:
    return _for_a_while(ground, Rule("", "", delay=ground.rng.uniform(0.1, 0.8)))


@kind("API server answers 429")
def api_server_overloaded(ground: Ground[Arena]) -> str:
    return _for_a_while(ground, Rule("", "", status=429, share=0.5))


@kind("API server answers 500")
def api_server_fails(ground: Ground[Arena]) -> str:
    return _for_a_while(ground, Rule("", "", status=500, share=0.5))


@kind("Bindings refused with 409")
def bindings_conflict(ground: Ground[Arena]) -> str:
    return _for_a_while(ground, Rule("POST", BINDING, status=409, share=0.5))


@kind("Bindings applied, then answered with 504")
def bindings_time_out(ground: Ground[Arena]) -> str:
    return _for_a_while(ground, Rule("POST", BINDING, status=504, applied=True, share=0.7))


@kind("Bindings applied, their answers lost")
def binding_answers_lost(ground: Ground[Arena]) -> str:
    return _for_a_while(ground, Rule("POST", BINDING, loses=True, share=0.7))


@kind("Bindings applied, their answers lost, and the next tries refused with 429")
def binding_answers_lost_and_refused(ground: Ground[Arena]) -> str:
    with ground.arena.front.rule(Rule("POST", BINDING, loses=True, share=0.4)) as lost:
        refused = _for_a_while(ground, Rule("POST", BINDING, status=429, share=0.7))
    return f"{lost.met} answers, {refused}" if lost.met and refused else ""


@kind("binds' answers to kube-scheduler lost")
def bind_answers_lost(ground: Ground[Arena]) -> str:
    rule = Rule("POST", BIND, loses=True, share=0.7)
    with ground.arena.side.rule(rule):
        time.sleep(WHILE)
    return f"{rule.met} answers" if rule.met else ""


def _for_a_while(ground: Ground[Arena], rule: Rule) -> str:
    with ground.arena.front.rule(rule):
        time.sleep(WHILE)
    return f"{rule.met} requests" if rule.met else ""


# -- others who write


@kind("other writers change annotations of pods and nodes")
def other_writers(ground: Ground[Arena]) -> str:
    writes, deadline = 0, time.monotonic() + WHILE
    while time.monotonic() < deadline:
        names = list(ground.arena.pods())
        for path in (
            f"{pods_path()}/{ground.rng.choice(names)}" if names else "/api/v1/nodes/n00",
            f"/api/v1/nodes/{_some_node(ground)}",
        ):
            with suppress(ApiError):
                ground.arena.annotate(path, {"example.com/touched": str(writes), "example.com/more": "x" * 200})
                writes += 1
    return f"{writes} writes"


@kind("locks of a dead process on all nodes")
def stale_locks(ground: Ground[Arena]) -> str:
    lock = f"2026-01-01T00:00:00Z,default,{GHOST}"
    # Were a pod being handed its devices now, its plugin would see the wrong lock, and nobody could help it.
    with ground.arena.side.rule(Rule("POST", BIND, holds=REQUEST)):
        if not until(ground.arena.is_handing_out_nothing):
            return ""
        for number in range(ground.arena.nodes):
            ground.arena.annotate(f"/api/v1/nodes/n{number:02}", {LOCK: lock})
    before = len(ground.arena.side.passed)
    time.sleep(WHILE)
    binds = [passed.seconds for passed in ground.arena.side.passed[before:] if passed.path == "/bind"]
    return f"{ground.arena.nodes} locks, slowest of {len(binds)} binds {max(binds):.2f} s" if binds else ""


@kind("a node's registration is garbage for a while")
def garbage_on_node(ground: Ground[Arena]) -> str:
    name = _some_node(ground)
    path = f"/api/v1/nodes/{name}"
    before = ground.arena.api.get(path)["metadata"]["annotations"][REGISTER]
    garbage = ground.rng.choice(["", "]", before[: len(before) // 2], '[{"id": 5}]', "\u0000\ufffd", "[[[[" * 1000])
    ground.arena.annotate(path, {REGISTER: garbage, "hami.io/node-handshake": garbage[:20]})
    ground.arena.exchange(path, LOCK, None, garbage[:20])
    time.sleep(1.5)
    ground.arena.annotate(path, {REGISTER: before, "hami.io/node-handshake": None})
    ground.arena.exchange(path, LOCK, garbage[:20], None)
    return f"{garbage[:12]!r} on {name}"


@kind("a card's health changes back and forth")
def card_unhealthy(ground: Ground[Arena]) -> str:
    name = _some_node(ground)
    path = f"/api/v1/nodes/{name}"
    before = ground.arena.api.get(path)["metadata"]["annotations"][REGISTER]
    cards = json.loads(before)
    ground.rng.choice(cards)["health"] = False
    ground.arena.annotate(path, {REGISTER: json.dumps(cards)})
    time.sleep(1.0)
    ground.arena.annotate(path, {REGISTER: before})
    return f"on {name}"


# -- things vanish


@kind("a node deleted in the middle of a bind to it")
def node_deleted(ground: Ground[Arena]) -> str:
    arena = ground.arena
    with arena.side.rule(Rule("POST", BIND, times=1, holds=REQUEST)) as rule:
        if not rule.reached.wait(PATIENCE):
            return ""
        number = ground.rng.randrange(arena.nodes)
        name = f"n{number:02}"
        arena.api.delete(f"/api/v1/nodes/{name}")
    time.sleep(ground.rng.uniform(0.0, 0.5))
    collect_garbage(ground, name)
    arena.api.create_nodes([arena.node(number)])
    # A bind that was on its way when the node went may have come after the collection.
    time.sleep(0.3)
    return name


def collect_garbage(ground: Ground[Arena], node: str) -> None:
    """Delete the pods of a node that is gone, as Kubernetes' garbage collector does."""
    deadline = time.monotonic() + WHILE
    while time.monotonic() < deadline:
        for name, pod in ground.arena.pods().items():
            if pod["spec"].get("nodeName") == node:
                ground.traffic.remove(name)
        time.sleep(0.1)


@kind("a pod deleted while its Binding is on the way, and created again")
def pod_deleted(ground: Ground[Arena]) -> str:
    arena = ground.arena
    with arena.side.rule(Rule("POST", BIND, times=1, holds=REQUEST)) as rule:
        if not rule.reached.wait(PATIENCE):
            return ""
        waiting = [name for name, pod in arena.pods().items() if not pod["spec"].get("nodeName")]
        for name in waiting:
            ground.traffic.remove(name)
        with suppress(*FAILURES):
            for name in waiting[:3]:
                ground.traffic.arrive(name)
    return f"{len(waiting)} pods"


@kind("many pods deleted at once")
def pods_deleted(ground: Ground[Arena]) -> str:
    names = list(ground.arena.pods())
    gone = ground.rng.sample(names, len(names) // 3)
    for name in gone:
        ground.traffic.remove(name)
    return f"{len(gone)} pods"


# -- those who ask


@kind("kube-scheduler killed and started again")
def scheduler_restarted(ground: Ground[Arena]) -> str:
    ground.arena.restart_scheduler()
    return "restarted"


@kind("webhook unavailable, then back")
def webhook_away(ground: Ground[Arena]) -> str:
    api = ground.arena.api
    with ground.arena.side.rule(Rule("POST", WEBHOOK, loses=True)) as rule:
        time.sleep(1.0)
    api.create_pods([sharing("hooked", 1, 1000, 5, "default-scheduler")])
    try:
        given = api.get(f"{pods_path()}/hooked")["spec"]["schedulerName"]
    finally:
        ground.arena.delete_pod("hooked")
    assert given == SCHEDULER, f"the webhook is back, and a new pod has the scheduler {given}"
    return f"{rule.met} calls" if rule.met else ""


def until(holds: Callable[[], bool]) -> bool:
    """Wait until it holds; false if that takes too long."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _some_node(ground: Ground[Arena]) -> str:
    return f"n{ground.rng.randrange(ground.arena.nodes):02}"
