"""A world that goes on: jobs arrive, cycles are carried out, and controllers make stopped pods again."""

from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.properties.crowds import Crowd, plugins
from tonnage.actions.catalog import make_actions
from tonnage.model.meta import OwnerReference
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.evictions.plans import LEAVES

START = 1_800_000_000.0
SECONDS = 5.0
"""Between two cycles."""
LAST_ARRIVAL = 20
"""The cycle before which all jobs have come."""


class Restless:
    """Cycles over a crowd whose stopped pods end after a while and come back under another name."""

    def __init__(self, world: dict[str, Any], actions: Sequence[str], chance: Random) -> None:
        self._crowd, self._chance = Crowd(world), chance
        self._cluster = self._crowd.build()
        self._runner = CycleRunner(self._cluster, plugins(world), make_actions(actions))
        self._arriving: dict[str, tuple[int, Pod]] = {}
        for key, task in list(self._cluster.waiting.items()):
            self._arriving[key] = self._chance.randrange(LAST_ARRIVAL), task.pod
            self._cluster.remove_pod(key)
        self._ending: dict[str, int] = {}
        """Terminating pods, and the cycle in which they are gone."""
        self.history: list[list[tuple[str, str, str, str | None]]] = []
        """Who was stopped in each cycle: the pod, for which job, why, and where there is room for it."""

    def run(self, cycles: int) -> None:
        for number in range(cycles):
            self._before(number)
            before = self._state()
            self._cycle(START + number * SECONDS, number)
            if number >= LAST_ARRIVAL and not self._ending and self._state() == before:
                # Nothing has happened, so all cycles from here on are the same.
                return

    def _state(self) -> object:
        cluster = self._cluster
        return set(cluster.waiting), dict(cluster.holders), set(cluster.pipelined), set(cluster.leaving)

    def _before(self, number: int) -> None:
        """What happens between two cycles: pods come, end, and are made again."""
        now = rfc3339(START + number * SECONDS)
        for key in [key for key, (when, _) in self._arriving.items() if when <= number]:
            self._cluster.upsert_pod(self._arriving.pop(key)[1])
        for key in [key for key, when in self._ending.items() if when <= number]:
            del self._ending[key]
            self._cluster.remove_pod(key)
            again = self._crowd.again(key.partition(".")[0])
            maker = OwnerReference(again.metadata.name, controller=True, kind="ReplicaSet")
            name = f"{again.metadata.name}.{number}"
            metadata = replace(again.metadata, name=name, creationTimestamp=now, ownerReferences=[maker])
            self._cluster.upsert_pod(replace(again, metadata=metadata))

    def _cycle(self, now: float, number: int) -> None:
        done = self._runner.run(frozenset(), now)
        for decision in done.placed:
            self._cluster.confirm(decision.task.key)
        victims = [victim for plan in done.plans for victim in plan.victims]
        self.history.append([(v.key, v.eviction.for_, v.eviction.action, v.eviction.to) for v in victims])
        for victim in victims:
            victim.state = LEAVES
            self._ending[victim.key] = number + self._chance.randrange(1, 4)
