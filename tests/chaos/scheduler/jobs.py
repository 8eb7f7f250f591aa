"""Arrivals and departures of jobs: single pods and gangs, on shared and on whole cards, of two queues and priorities.

It plays the controllers too: pods of a job that are gone come again under their names, and so do PodGroups and queues.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from tests.chaos.arena import CARD_MEMORY, FAILURES, Stage
from tests.chaos.scheduler.history import QUEUE
from tests.chaos.traffic import Flow
from tests.e2e.batching import wanted
from tonnage.lab import definitions
from tonnage.lab.api import pod_manifest, pods_path

GROUPS = f"{definitions.KAI_GROUPS}/namespaces/default/podgroups"
QUEUES = f"{definitions.KAI_QUEUES}/queues"
LOW, HIGH = "low", "high"
PRIORITIES = {LOW: 10, HIGH: 50}
NAMES = ("q", "r")
GRACE = "5s"
"""After so long what is left of a gang that has lost pods is stopped."""
PAUSE = 0.12
MEMORIES = (1000, 2000, 4000, 6000)


class Job(NamedTuple):
    """Pods that come and go together."""

    name: str
    pods: dict[str, dict[str, Any]]
    """By name, as manifests."""
    group: dict[str, Any] | None
    cards: float
    """How many cards it asks for, all pods together."""


class Jobs(Flow):
    """Knows which jobs should be there."""

    def __init__(self, arena: Stage, rng: random.Random, fill: float = 1.2) -> None:
        super().__init__()
        self._arena = arena
        self._rng = rng
        self._most = fill * arena.nodes * arena.cards
        self._number = 0
        self.jobs: dict[str, Job] = {}

    def step(self) -> None:
        full = sum(job.cards for job in list(self.jobs.values())) / self._most
        drawn = self._rng.random()
        with suppress(*FAILURES):
            if drawn < 0.15:
                self.tend()
            elif self._rng.random() < (0.9 if full < 0.9 else 0.5 if full < 1.0 else 0.2):
                self.arrive()
            else:
                self.leave()

    def fill(self) -> None:
        while sum(job.cards for job in self.jobs.values()) < 0.9 * self._most:
            self.arrive()

    @contextmanager
    def flowing(self, pause: float = PAUSE) -> Iterator[None]:
        with super().flowing(pause):
            yield

    # -- what comes

    def arrive(self) -> Job:
        """Some job."""
        importance = HIGH if self._rng.random() < 0.25 else LOW
        if self._rng.random() < 0.35:
            return self.gang(importance)
        return self._create("p", 1, importance, shares=self._rng.random() < 0.6)

    def gang(self, importance: str = LOW, pods: int = 0, shares: bool | None = None) -> Job:
        """Pods that start together."""
        if shares is None:
            shares = self._rng.random() < 0.4
        return self._create("g", pods or self._rng.randrange(2, 5), importance, shares)

    def urgent(self) -> Job:
        """An important job, for which others have to go on a full cluster."""
        return self._create("u", self._rng.choice([1, 1, 2, 3]), HIGH, shares=self._rng.random() < 0.5)

    def _create(self, letter: str, count: int, importance: str, shares: bool) -> Job:
        self._number += 1
        name, queue = f"{letter}{self._number:05}", self._rng.choice(NAMES)
        cards, memory = self._rng.choice([1, 1, 2]), self._rng.choice(MEMORIES)
        asks = {"memory": memory, "cores": 10} if shares else {}
        notes = {"tonnage.io/queue": queue} if count == 1 else {"pod-group-name": name}
        pods = {}
        for number in range(count):
            pod = wanted(
                name if count == 1 else f"{name}-{number}", cards, annotations=notes, labels={QUEUE: queue}, **asks
            )
            made = pod_manifest(pod)
            made["spec"].update(priorityClassName=importance, terminationGracePeriodSeconds=1)
            pods[made["metadata"]["name"]] = made
        group = None
        if count > 1:
            least = count if self._rng.random() < 0.7 else count - 1
            spec = {"minMember": least, "queue": queue, "priorityClassName": importance, "stalenessGracePeriod": GRACE}
            group = {**_kind("scheduling.run.ai/v2alpha2", "PodGroup", name), "spec": spec}
        weight = count * cards * (memory / CARD_MEMORY if shares else 1.0)
        job = self.jobs[name] = Job(name, pods, group, weight)
        with suppress(*FAILURES):
            if group is not None:
                self._arena.api.create(GROUPS, group)
            for made in pods.values():
                self._arena.api.create(pods_path(), made)
                self.created += 1
        return job

    # -- what goes

    def leave(self) -> None:
        """One job less."""
        if self.jobs:
            self.take_away(self._rng.choice(list(self.jobs)))

    def take_away(self, name: str) -> None:
        job = self.jobs.pop(name, None)
        if job is None:
            return
        for pod in job.pods:
            self.remove(pod)
        if job.group is not None:
            with suppress(*FAILURES):
                self._arena.api.delete(f"{GROUPS}/{name}")

    def remove(self, name: str) -> None:
        """Delete a pod; if its job is still there, it comes again."""
        with suppress(*FAILURES):
            self._arena.delete_pod(name)
            self.deleted += 1

    # -- what is missing

    def tend(self) -> list[str]:
        """Create what is missing and remove what nobody wants; what was done."""
        self.make_queues()
        jobs = list(self.jobs.values())
        groups = {one["metadata"]["name"] for one in self._arena.api.get(GROUPS)["items"]}
        there = self._arena.pods()
        done = []
        for job in jobs:
            if job.group is not None and job.name not in groups and job.name in self.jobs:
                done.append(f"PodGroup {job.name} was missing")
                with suppress(*FAILURES):
                    self._arena.api.create(GROUPS, job.group)
            for name, made in job.pods.items():
                if name not in there and job.name in self.jobs:
                    done.append(f"{name} was missing")
                    with suppress(*FAILURES):
                        self._arena.api.create(pods_path(), made)
                        self.created += 1
        wanted_pods = {name for job in list(self.jobs.values()) for name in job.pods}
        for name in there.keys() - wanted_pods:
            done.append(f"{name} was left")
            self.remove(name)
        return done

    def make_queues(self) -> None:
        """The two queues, each with a right to a third of the cards, as far as they are missing."""
        there = {one["metadata"]["name"] for one in self._arena.api.get(QUEUES)["items"]}
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        share = self._arena.nodes * self._arena.cards // 3
        gpu = {"quota": share, "limit": -1, "overQuotaWeight": 1}
        for name in NAMES:
            if name not in there:
                made = _kind("scheduling.run.ai/v2", "Queue", name)
                with suppress(*FAILURES):
                    spec = {"resources": {"gpu": gpu, "cpu": free, "memory": free}}
                    self._arena.api.create(QUEUES, {**made, "spec": spec})


def _kind(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
