"""Random clusters in which jobs run and others wait: nodes with whole cards, shared cards and HAMi's, queues and gangs.

A world is plain data, so that the same one can be built in any order and again after every cycle. Jobs that run are put
where there is room, card by card, by the simplest means.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.config.texts import load
from tests.groups import add, group, kai_group, queue
from tests.plugins.queues.teams import team
from tests.scenario import ALLOCATED, node, part, plain, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP, VOLCANO_GROUP
from tonnage.cluster.jobs.job import VOLCANO_KEY
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.group import GroupObject
from tonnage.model.node import Node
from tonnage.model.pod import Pod

WHOLE, HALF, SLICE = "whole", "half", "slice"
"""What pods ask for: cards, half a card as KAI's users do, half a card as HAMi's do."""
CARD_MEMORY = 8000
QUEUES = ("q0", "q1", "q2")
CARDS = "nvidia.com/gpu"
ACTIONS = ("allocate", "consolidation", "reclaim", "preempt")
VOLCANOS_ACTIONS = ("allocate", "backfill", "preempt", "reclaim")

jobs = st.fixed_dictionaries(
    {
        "queue": st.integers(0, 2),
        "kind": st.sampled_from([WHOLE, WHOLE, WHOLE, HALF, SLICE]),
        "pods": st.integers(1, 4),
        "cards": st.sampled_from([1, 1, 1, 2, 3]),
        "minimum": st.integers(1, 4),
        "priority": st.sampled_from([0, 50, 50, 75, 100]),
        "grouped": st.sampled_from([True, True, False]),
        "node": st.integers(0, 3),
        "runs": st.booleans(),
        "stays": st.sampled_from([0, 0, 0, 0, 1, 2]),
    }
)
"""Of a job of Volcano's the first few pods may say that they must not be stopped."""
worlds = st.fixed_dictionaries(
    {
        "rules": st.sampled_from(["kai", "kai", "proportion", "capacity"]),
        "nodes": st.lists(st.tuples(st.sampled_from("pph"), st.integers(1, 4)), min_size=1, max_size=4),
        "deserved": st.lists(st.integers(0, 4), min_size=3, max_size=3),
        "weight": st.lists(st.integers(0, 2), min_size=3, max_size=3),
        "limit": st.lists(st.sampled_from([-1, -1, -1, 2, 4]), min_size=3, max_size=3),
        "departments": st.booleans(),
        "jobs": st.lists(jobs, min_size=1, max_size=8),
    }
)

_KAI = """
actions: allocate
tiers:
- plugins:
  - {name: predicates}
  - {name: proportion}
  - {name: priority}
  - {name: elastic}
  - {name: gpusharingorder}
  - {name: gpupack}
  - {name: nodeplacement, arguments: {cpu: binpack, gpu: binpack}}
"""
_VOLCANO = """
actions: allocate
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: RULES}, {name: nodeorder}]
"""


def plugins(world: dict[str, Any]) -> list[Plugin]:
    """Those of a configuration of KAI's or Volcano's."""
    return load(_KAI if world["rules"] == "kai" else _VOLCANO.replace("RULES", world["rules"])).plugins


class Spot(NamedTuple):
    """Where a pod runs: its node and cards."""

    node: str
    cards: tuple[int, ...]


class _ResourceNeed:
    """What is free of each card, in halves."""

    def __init__(self, world: dict[str, Any]) -> None:
        self._kinds = {f"n{number}": kind for number, (kind, _) in enumerate(world["nodes"])}
        self._free = {f"n{number}": [2] * cards for number, (_, cards) in enumerate(world["nodes"])}

    def take(self, kind: str, cards: int, first: int) -> Spot | None:
        """A spot for a pod, on the first node that has one."""
        names = list(self._free)
        first %= len(names)
        for name in [*names[first:], *names[:first]]:
            if kind != WHOLE and (kind == HALF) != (self._kinds[name] == "p"):
                continue
            need, count = (2, cards) if kind == WHOLE else (1, 1)
            fitting = [card for card, free in enumerate(self._free[name]) if free >= need]
            if len(fitting) >= count:
                for card in fitting[:count]:
                    self._free[name][card] -= need
                return Spot(name, tuple(fitting[:count]))
        return None


def _spots(world: dict[str, Any]) -> dict[str, Spot]:
    """Where the pods of running jobs are; of a job that does not fit as far as its minimum, none."""
    stock, found = _ResourceNeed(world), dict[str, Spot]()
    for number, job in enumerate(world["jobs"]):
        if not job["runs"]:
            continue
        for place in range(job["pods"]):
            spot = stock.take(job["kind"], job["cards"], job["node"])
            if spot is not None:
                found[f"default/j{number}-{place}"] = spot
    return found


class Crowd:
    """A world as objects."""

    def __init__(self, world: dict[str, Any]) -> None:
        self.world = world
        self.spots = _spots(world)
        self.hami = {f"n{number}" for number, (kind, _) in enumerate(world["nodes"]) if kind == "h"}
        self.by_kai = world["rules"] == "kai"

    def objects(self) -> list[Node | Pod | GroupObject]:
        return [*self._nodes(), *self._queues(), *self._groups(), *self.pods()]

    def _nodes(self) -> Iterator[Node]:
        for number, (kind, cards) in enumerate(self.world["nodes"]):
            if kind == "h":
                yield node(f"n{number}", gpus=cards, slots=2, gpu_memory=CARD_MEMORY)
            else:
                yield plain(f"n{number}", cards, gpu_memory=CARD_MEMORY)

    def _queues(self) -> Iterator[GroupObject]:
        world = self.world
        for number, name in enumerate(QUEUES):
            deserved, weight, limit = (world[key][number] for key in ("deserved", "weight", "limit"))
            if self.by_kai:
                parent = f"d{number % 2}" if world["departments"] else None
                yield team(name, deserved, limit, weight, parentQueue=parent, created=_time(number))
            else:
                capability = {} if limit < 0 else {"capability": {CARDS: limit}}
                yield queue(name, weight=weight + 1, deserved={CARDS: deserved}, created=_time(number), **capability)
        for number in range(2) if self.by_kai and world["departments"] else ():
            yield team(f"d{number}", 3, created=_time(number))

    def _groups(self) -> Iterator[GroupObject]:
        for number, job in enumerate(self.world["jobs"]):
            if job["grouped"]:
                make = kai_group if self.by_kai else group
                least = min(job["minimum"], job["pods"])
                yield make(f"j{number}", least, queue=QUEUES[job["queue"]], created=_time(number))

    def pods(self) -> list[Pod]:
        count = [(number, place) for number, job in enumerate(self.world["jobs"]) for place in range(job["pods"])]
        return [self.pod(*one, self.spots.get(f"default/j{one[0]}-{one[1]}")) for one in count]

    def pod(self, number: int, place: int, spot: Spot | None = None) -> Pod:
        """A pod of a job, which waits unless it has a spot."""
        job = self.world["jobs"][number]
        name, kind = f"j{number}-{place}", job["kind"]
        notes = {KAI_GROUP if self.by_kai else VOLCANO_GROUP: f"j{number}"} if job["grouped"] else {}
        notes["tonnage.io/queue"] = QUEUES[job["queue"]]
        notes |= {VOLCANO_KEY: "false"} if place < job["stays"] and not self.by_kai else {}
        more: dict[str, Any] = {"on": spot and spot.node, "priority": job["priority"], "created": _time(number)}
        if kind == HALF:
            card = f"{spot.node}-{spot.cards[0]}" if spot else None
            return part(name, 0.5, group=card, annotations=notes, **more)
        memory = CARD_MEMORY // 2 if kind == SLICE else None
        if spot and spot.node in self.hami:
            held = [f"{spot.node}/{card},NVIDIA,{memory or CARD_MEMORY},0:" for card in spot.cards]
            notes[ALLOCATED] = "".join(held) + ";"
        return pod(name, 1 if kind == SLICE else job["cards"], memory=memory, annotations=notes, **more)

    def again(self, key: str) -> Pod:
        """The pod that comes in place of one that was stopped."""
        number, place = key.removeprefix("default/j").split("-")
        return self.pod(int(number), int(place))

    def build(self, chance: Random | None = None) -> Cluster:
        """The cluster, told of its objects in some order."""
        things = self.objects()
        if chance is not None:
            chance.shuffle(things)
        cluster = scenario()
        for thing in things:
            if isinstance(thing, Node):
                cluster.upsert_node(thing)
            elif isinstance(thing, Pod):
                cluster.upsert_pod(thing)
            else:
                add(cluster, thing)
        return cluster

    def settle(self, session: Session, keeps_promises: bool) -> None:
        """What the world makes of a cycle: placed pods run, stopped ones are made anew, promises are kept or not."""
        cluster = session.cluster
        for key in list(cluster.reserved):
            if cluster.reserved[key].pod.key != key:
                # Where a stopped pod had a place, the one that comes instead of it has to find its own.
                cluster.remove_pod(key)
            elif key in cluster.pipelined and not keeps_promises:
                cluster.release(key)
            else:
                cluster.confirm(key)
        for key in sorted(cluster.leaving):
            cluster.remove_pod(key)
            cluster.upsert_pod(self.again(key))


def _time(number: int) -> str:
    return f"2026-01-01T00:{number:02}:00Z"


# -- looking at a cluster


def picture(session: Session) -> tuple[Any, ...]:
    """Everything that an attempt can change."""
    cluster = session.cluster
    cluster.settle()
    columns = cluster.columns
    arrays = tuple(array.tobytes() for array in (columns.amounts, columns.card_free, columns.node_used))
    counts = {key: [job.count(status) for status in range(6)] for key, job in cluster.groups.jobs.items()}
    sets = [
        set(one) for one in (cluster.waiting, cluster.reserved, cluster.running, cluster.pipelined, cluster.leaving)
    ]
    return arrays, dict(cluster.holders), counts, sets, session.queues.records(), len(session.evictions)


def overfull(cluster: Cluster) -> list[str]:
    """What is given out more than once when all who leave have left, counted pod by pod."""
    found: list[str] = []
    for state in cluster.nodes.values():
        used = {uuid: [0, 0, 0] for uuid in state.positions}
        staying = [key for key in state.holdings if key not in cluster.leaving]
        for key in staying:
            for use in state.uses(key):
                found += [f"{key} has a card on {state.name}, and nobody knows which"] * use.unknown
                for card in use.cards:
                    held = used[card.uuid]
                    held[:] = [held[0] + card.slots, held[1] + card.memory, held[2] + card.cores]
        for device in state.devices:
            slots, memory, cores = used[device.uuid]
            if slots > device.count or memory > device.memory or cores > device.cores:
                found.append(f"{device.uuid}: {slots} slots, {memory} MiB, {cores} %")
    return found
