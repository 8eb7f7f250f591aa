"""Faults between two batch schedulers: each a function that does harm to a pair of them while jobs come and go."""

import signal
import time
from collections.abc import Callable

from tests.chaos.faults import BINDING, PATIENCE, enlisting, until
from tests.chaos.front import ANSWER, REQUEST, Rule
from tests.chaos.scheduler.faults import EVICTION, GANG_BINDING, Fault, Ground, gangs, urgent

KINDS: dict[str, Fault] = {}
"""All kinds, by what happens."""


_kind = enlisting(KINDS)


@_kind("replicas: leader killed while it binds a gang")
def killed_while_binding(ground: Ground) -> str:
    where = ground.rng.choice([REQUEST, ANSWER])
    return _killed_at(ground, Rule("POST", GANG_BINDING, times=1, holds=where), gangs)


@_kind("replicas: leader killed while it evicts")
def killed_while_evicting(ground: Ground) -> str:
    where = ground.rng.choice([REQUEST, ANSWER])
    return _killed_at(ground, Rule("POST", EVICTION, times=1, holds=where), urgent)


def _killed_at(ground: Ground, rule: Rule, begin: Callable[[Ground], None]) -> str:
    leader = ground.arena.leader()
    with leader.front.rule(rule):
        begin(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        leader.kill()
        rule.drop()
    seconds = ground.arena.until_leading(ground.arena.other(leader))
    leader.start()
    return f"{'not ' if rule.holds is REQUEST else ''}applied, replaced after {seconds:.1f} s"


@_kind("replicas: leader stands still while it binds a gang until another leads, and goes on")
def paused_while_binding(ground: Ground) -> str:
    return _paused(ground, Rule("POST", GANG_BINDING, times=1, delay=0.01), gangs)


@_kind("replicas: leader stands still while it evicts until another leads, and goes on")
def paused_while_evicting(ground: Ground) -> str:
    return _paused(ground, Rule("POST", EVICTION, times=1, delay=0.01), urgent)


def _paused(ground: Ground, rule: Rule, begin: Callable[[Ground], None]) -> str:
    leader = ground.arena.leader()
    with leader.front.rule(rule):
        begin(ground)
        if not until(lambda: rule.met > 0):
            return ""
    leader.signal(signal.SIGSTOP)
    try:
        seconds = ground.arena.until_leading(ground.arena.other(leader))
        time.sleep(ground.rng.uniform(0.0, 1.0))
    finally:
        leader.signal(signal.SIGCONT)
    return f"replaced after {seconds:.1f} s"


@_kind("replicas: a Binding is held up on the way and arrives when another leads")
def late_binding(ground: Ground) -> str:
    leader = ground.arena.leader()
    with leader.front.rule(Rule("POST", BINDING, times=1, holds=REQUEST)) as rule:
        gangs(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        leader.signal(signal.SIGSTOP)
        try:
            seconds = ground.arena.until_leading(ground.arena.other(leader))
            time.sleep(ground.rng.uniform(0.0, 0.5))
            rule.let_go()
            time.sleep(0.2)
        finally:
            leader.signal(signal.SIGCONT)
    return f"after {seconds:.1f} s"


@_kind("replicas: leader stands still for less than its Lease lasts")
def paused_shortly(ground: Ground) -> str:
    leader = ground.arena.leader()
    seconds = ground.rng.uniform(0.8, 2.4)
    urgent(ground)
    leader.signal(signal.SIGSTOP)
    time.sleep(seconds)
    leader.signal(signal.SIGCONT)
    return f"for {seconds:.1f} s"


@_kind("replicas: the Lease is taken away by another writer, again and again")
def lease_flaps(ground: Ground) -> str:
    urgent(ground)
    for turn in range(6):
        ground.arena.give_lease(f"nobody-knows-me-{turn}")
        time.sleep(ground.rng.choice([0.3, 1.0, 3.5]))
    return "6 times"


@_kind("replicas: leader cut off from the API server until another leads")
def cut_off(ground: Ground) -> str:
    leader = ground.arena.leader()
    leader.front.stalled.set()
    try:
        with leader.front.rule(Rule("", "", holds=REQUEST)) as rule:
            urgent(ground)
            seconds = ground.arena.until_leading(ground.arena.other(leader))
            rule.drop()
    finally:
        leader.front.stalled.clear()
    return f"{rule.met} requests lost, replaced after {seconds:.1f} s"


@_kind("replicas: the leader's renewals are slow")
def renewals_slow(ground: Ground) -> str:
    with ground.arena.leader().front.rule(Rule("", "/leases/", delay=ground.rng.uniform(0.5, 1.4))) as rule:
        gangs(ground)
        time.sleep(4.0)
    return f"{rule.met} requests"


@_kind("replicas: leader stopped in order")
def stopped(ground: Ground) -> str:
    leader = ground.arena.leader()
    gangs(ground)
    leader.scheduler.stop()
    seconds = ground.arena.until_leading(ground.arena.other(leader))
    leader.start()
    return f"replaced after {seconds:.1f} s"


@_kind("replicas: both killed and started again")
def both_restarted(ground: Ground) -> str:
    urgent(ground)
    for side in ground.arena.sides:
        side.kill()
    for side in ground.arena.sides:
        side.start()
    return "restarted"
