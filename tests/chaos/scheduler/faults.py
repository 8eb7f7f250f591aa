"""The kinds of faults of one batch scheduler: each a function that does harm to a yard while jobs come and go.

As with those of the extender, what a fault says about itself goes into the record; an empty text means that what it
waits for did not come about.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tests.chaos import faults as shared
from tests.chaos.arena import FAILURES
from tests.chaos.faults import PATIENCE, WHILE
from tests.chaos.front import ANSWER, REQUEST, Rule
from tests.chaos.scheduler.arena import DEFINITIONS, Yard
from tests.chaos.scheduler.jobs import Jobs
from tests.config.texts import KAI_DEFAULT
from tonnage.lab import definitions
from tonnage.lab.api import pods_path

GANG_BINDING = r"/pods/g\d+-[1-9]/binding$"
URGENT_BINDING = r"/pods/u\d+(-\d+)?/binding$"
EVICTION = r"/pods/[^/]+/eviction$"
STATUS, NOMINATION = r"/pods/[^/]+/status$", r'"nominatedNodeName": ?"\w'
AS_OF_THE_EXTENDER = (
    "API server killed and started again",
    "watch connections cut",
    "watch connections deliver nothing for a while",
    "API server slow",
    "API server answers 429",
    "API server answers 500",
    "Bindings refused with 409",
    "Bindings applied, then answered with 504",
    "Bindings applied, their answers lost",
    "Bindings applied, their answers lost, and the next tries refused with 429",
    "other writers change annotations of pods and nodes",
    "many pods deleted at once",
)


class Ground(NamedTuple):
    """What a fault works on."""

    arena: Yard
    traffic: Jobs
    rng: random.Random


Fault = Callable[[Ground], str]
KINDS: dict[str, Fault] = {}
"""All kinds, by what happens."""


kind = shared.enlisting(KINDS)


def gangs(ground: Ground) -> None:
    """Room, and gangs that come."""
    for name in ground.rng.sample(list(ground.traffic.jobs), len(ground.traffic.jobs) // 3):
        ground.traffic.take_away(name)
    for _ in range(3):
        ground.traffic.gang()


def urgent(ground: Ground) -> None:
    """Important jobs come."""
    for _ in range(3):
        ground.traffic.urgent()


# -- as with the extender


def _amid_gangs(fault: Callable[..., str]) -> Fault:
    def struck(ground: Ground) -> str:
        ground.rng.choice([gangs, urgent])(ground)
        return fault(ground)

    return struck


KINDS |= {title: _amid_gangs(shared.KINDS[title]) for title in AS_OF_THE_EXTENDER}


# -- the scheduler dies


@kind("killed while a gang is bound, a Binding not applied")
def killed_before_binding(ground: Ground) -> str:
    return _killed_at(ground, Rule("POST", GANG_BINDING, times=1, holds=REQUEST), gangs)


@kind("killed while a gang is bound, a Binding applied")
def killed_after_binding(ground: Ground) -> str:
    return _killed_at(ground, Rule("POST", GANG_BINDING, times=1, holds=ANSWER), gangs)


@kind("killed at any moment while gangs are bound")
def killed_at_random(ground: Ground) -> str:
    gangs(ground)
    seconds = ground.rng.uniform(0.0, 0.6)
    time.sleep(seconds)
    ground.arena.leader().kill()
    ground.arena.sides[0].start()
    return f"after {seconds:.2f} s"


@kind("killed before the node of a preemption is written on the pod")
def killed_before_nomination(ground: Ground) -> str:
    return _killed_at(ground, Rule("PATCH", STATUS, times=1, holds=REQUEST, says=NOMINATION), urgent)


@kind("killed after the node of a preemption is written on the pod")
def killed_after_nomination(ground: Ground) -> str:
    return _killed_at(ground, Rule("PATCH", STATUS, times=1, holds=ANSWER, says=NOMINATION), urgent)


@kind("killed while its eviction is on the way, not applied")
def killed_before_eviction(ground: Ground) -> str:
    return _killed_at(ground, Rule("POST", EVICTION, times=1, holds=REQUEST), urgent)


@kind("killed after its eviction was applied, before the answer")
def killed_after_eviction(ground: Ground) -> str:
    return _killed_at(ground, Rule("POST", EVICTION, times=1, holds=ANSWER), urgent)


@kind("killed while evicted pods end")
def killed_while_victims_end(ground: Ground) -> str:
    with ground.arena.front.rule(Rule("POST", EVICTION, times=1, delay=0.01)) as rule:
        urgent(ground)
        if not shared.until(lambda: rule.met > 0):
            return ""
    seconds = ground.rng.uniform(0.0, 1.2)
    time.sleep(seconds)
    ground.arena.leader().kill()
    ground.arena.sides[0].start()
    return f"{seconds:.2f} s after an eviction"


@kind("killed between eviction and bind")
def killed_before_the_bind_of_a_preemption(ground: Ground) -> str:
    where = ground.rng.choice([REQUEST, ANSWER])
    return _killed_at(ground, Rule("POST", URGENT_BINDING, times=1, holds=where), urgent)


@kind("stopped in order and started again")
def restarted(ground: Ground) -> str:
    ground.arena.sides[0].scheduler.stop()
    ground.arena.sides[0].start()
    return "restarted"


def _killed_at(ground: Ground, rule: Rule, begin: Callable[[Ground], None]) -> str:
    """Kill the scheduler once the rule holds a message, drop that, and start another."""
    side = ground.arena.leader()
    with side.front.rule(rule):
        begin(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        side.kill()
        rule.drop()
    side.start()
    return "killed and started again"


# -- answers are lost


@kind("evictions applied, their answers lost")
def eviction_answers_lost(ground: Ground) -> str:
    return _while_evicting(ground, Rule("POST", EVICTION, loses=True, share=0.7))


@kind("evictions applied, then answered with 504")
def evictions_time_out(ground: Ground) -> str:
    return _while_evicting(ground, Rule("POST", EVICTION, status=504, applied=True, share=0.7))


@kind("evictions refused with 429")
def evictions_refused(ground: Ground) -> str:
    return _while_evicting(ground, Rule("POST", EVICTION, status=429, share=0.7))


@kind("nominations applied, their answers lost")
def nominations_lost(ground: Ground) -> str:
    return _while_evicting(ground, Rule("PATCH", STATUS, loses=True, share=0.7, says=NOMINATION))


def _while_evicting(ground: Ground, rule: Rule) -> str:
    with ground.arena.front.rule(rule):
        urgent(ground)
        time.sleep(WHILE)
    return f"{rule.met} requests" if rule.met else ""


# -- things vanish in the middle


@kind("a member deleted while its gang is bound")
def member_deleted(ground: Ground) -> str:
    arena = ground.arena
    with arena.front.rule(Rule("POST", GANG_BINDING, times=1, holds=REQUEST)) as rule:
        gangs(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        grouped = [job for job in list(ground.traffic.jobs.values()) if job.group is not None]
        gone = [ground.rng.choice(list(job.pods)) for job in grouped]
        for name in gone:
            ground.traffic.remove(name)
        if ground.rng.random() < 0.5:
            with suppress(*FAILURES):
                ground.traffic.tend()
    return f"one of each of {len(gone)} gangs"


@kind("a victim deleted by somebody else meanwhile")
def victim_deleted(ground: Ground) -> str:
    arena = ground.arena
    before = arena.pods()
    with arena.front.rule(Rule("POST", EVICTION, times=1, holds=REQUEST)) as rule:
        urgent(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        bound = [name for name, pod in before.items() if pod["spec"].get("nodeName")]
        gone = ground.rng.sample(bound, len(bound) // 2)
        for name in gone:
            ground.traffic.remove(name)
    return f"{len(gone)} pods"


@kind("the pod for which others go is deleted meanwhile")
def beneficiary_deleted(ground: Ground) -> str:
    where = ground.rng.choice([REQUEST, ANSWER])
    with ground.arena.front.rule(Rule("POST", EVICTION, times=1, holds=where)) as rule:
        urgent(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        jobs = [name for name in list(ground.traffic.jobs) if name.startswith("u")]
        for name in jobs:
            ground.traffic.take_away(name)
    return f"{len(jobs)} jobs"


@kind("a node vanishes under a gang that is bound")
def node_vanishes(ground: Ground) -> str:
    arena = ground.arena
    with arena.front.rule(Rule("POST", GANG_BINDING, times=1, holds=REQUEST)) as rule:
        gangs(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        used = [pod["spec"]["nodeName"] for name, pod in arena.pods().items() if pod["spec"].get("nodeName")]
        name = ground.rng.choice(used)
        arena.api.delete(f"/api/v1/nodes/{name}")
    shared.collect_garbage(ground, name)
    arena.api.create_nodes([arena.node(int(name[1:]))])
    return name


@kind("a node vanishes while others go for a pod")
def node_vanishes_in_preemption(ground: Ground) -> str:
    arena = ground.arena
    with arena.front.rule(Rule("POST", EVICTION, times=1, holds=ANSWER)) as rule:
        urgent(ground)
        if not rule.reached.wait(PATIENCE):
            return ""
        named = [pod["status"]["nominatedNodeName"] for pod in arena.pods().values() if _is_nominated(pod["status"])]
        name = ground.rng.choice(named or [f"n{ground.rng.randrange(arena.nodes):02}"])
        arena.api.delete(f"/api/v1/nodes/{name}")
    shared.collect_garbage(ground, name)
    arena.api.create_nodes([arena.node(int(name[1:]))])
    return name


def _is_nominated(status: dict[str, str]) -> bool:
    return bool(status.get("nominatedNodeName"))


# -- what others set up


@kind("PodGroup and Queue definitions removed and installed again")
def definitions_removed(ground: Ground) -> str:
    api = ground.arena.api
    urgent(ground)
    names = ground.rng.choice([DEFINITIONS, DEFINITIONS[:1], DEFINITIONS[1:]])
    definitions.remove(api, *names)
    time.sleep(ground.rng.uniform(0.0, 1.5))
    definitions.install(api, *names)
    ground.traffic.make_queues()
    return ", ".join(names)


@kind("the configuration replaced by a broken one, and back")
def configuration_broken(ground: Ground) -> str:
    text = ground.rng.choice(["actions: [", "actions: nonsense\n", "", "tiers: 7\n"])
    ground.arena.configure(text)
    time.sleep(2.5)
    ground.arena.configure(KAI_DEFAULT)
    time.sleep(2.5)
    return repr(text)


@kind("the configuration replaced by another, and back")
def configuration_changed(ground: Ground) -> str:
    urgent(ground)
    ground.arena.configure(KAI_DEFAULT.replace("consolidation, reclaim, ", ""))
    time.sleep(2.5)
    ground.arena.configure(KAI_DEFAULT)
    time.sleep(2.5)
    return "without reclaim"


@kind("nothing happens")
def nothing(ground: Ground) -> str:
    urgent(ground)
    gangs(ground)
    time.sleep(WHILE)
    return f"{len(ground.arena.api.get(pods_path())['items'])} pods"
