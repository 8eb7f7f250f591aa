"""The honest tenant's workload: a fixed sequence of pods and gangs that come, run and go."""

import random
import time
from typing import Any, NamedTuple

from tests.scenario import pod
from tests.tenants.ledger import HONEST, JOB, Ledger
from tonnage.lab.api import Api, ApiError, pod_manifest, pods_path
from tonnage.lab.definitions import KAI_GROUPS

GROUPS = f"{KAI_GROUPS}/namespaces/{HONEST}/podgroups"
PAUSE = 0.5
"""Seconds between arrivals."""
RUNS = 12
"""How many jobs come before one goes."""
PATIENCE = 60.0
"""Seconds after which a pod that still waits waits for ever."""


class Job(NamedTuple):
    """Pods that come and go together."""

    name: str
    count: int
    cards: int
    memory: int
    """Of each card; 0 for whole cards."""

    @property
    def pods(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.count)]


def sequence(seed: int, jobs: int, has_gangs: bool) -> list[Job]:
    """The same jobs for the same seed."""
    rng = random.Random(seed)
    made = []
    for number in range(jobs):
        count = rng.choice([1, 1, 2, 3]) if has_gangs else 1
        whole = has_gangs and rng.random() < 0.2
        cards = 1 if count > 1 or whole else rng.choice([1, 1, 1, 2])
        made.append(Job(f"j{number:05}", count, cards, 0 if whole else rng.choice([1000, 2000, 3000])))
    return made


class Honest:
    """Plays the sequence, again and again if it is asked for more."""

    def __init__(self, api: Api, ledger: Ledger, scheduler: str, jobs: list[Job]) -> None:
        self._api, self._ledger, self._scheduler, self._jobs = api, ledger, scheduler, jobs
        self._there: list[Job] = []
        self._round = 0

    def play(self) -> None:
        """The whole sequence; what runs longest goes as others come."""
        self._round += 1
        for job in self._jobs:
            started = time.monotonic()
            self._arrive(job._replace(name=f"{job.name}-{self._round}"))
            while len(self._there) > RUNS:
                self._started(self._there[0])
                self._leave(self._there.pop(0))
            time.sleep(max(0.0, PAUSE - (time.monotonic() - started)))

    def started(self) -> None:
        """Wait until everything has started, or as long as the tenant is patient."""
        for job in self._there:
            self._started(job)

    def leave(self) -> None:
        """Everything goes."""
        while self._there:
            self._leave(self._there.pop())

    def _started(self, job: Job) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._ledger.has_placed(job.pods) and time.monotonic() < deadline:
            time.sleep(0.1)

    def _arrive(self, job: Job) -> None:
        notes = {}
        if job.count > 1:
            notes = {"pod-group-name": job.name}
            spec = {"minMember": job.count, "queue": HONEST, "priorityClassName": "high"}
            meta = {"name": job.name}
            group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}
            self._api.create(GROUPS, group)
        for name in job.pods:
            self._api.create(pods_path(HONEST), self._pod(job, name, notes))
        self._there.append(job)

    def _pod(self, job: Job, name: str, notes: dict[str, str]) -> dict[str, Any]:
        asks: dict[str, Any] = {"memory": job.memory, "cores": 10} if job.memory else {}
        wanted = pod(
            name,
            job.cards,
            namespace=HONEST,
            labels={JOB: job.name},
            annotations={**notes, "tonnage.io/queue": HONEST},
            **asks,
        )
        made = pod_manifest(wanted)
        made["spec"] |= {
            "schedulerName": self._scheduler,
            "priorityClassName": "high",
            "terminationGracePeriodSeconds": 0,
        }
        return made

    def _leave(self, job: Job) -> None:
        for name in job.pods:
            self._ledger.leaving(name)
            _delete(self._api, f"{pods_path(HONEST)}/{name}")
        if job.count > 1:
            _delete(self._api, f"{GROUPS}/{job.name}")


def _delete(api: Api, path: str) -> None:
    """Delete an object; one that is gone already is the ledger's business."""
    try:
        api.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise
