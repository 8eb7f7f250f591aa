"""The fill run: pods arrive in random order until they request a given part of all GPUs; none leaves.

A pod that does not fit is dropped, or waits, which without departures is forever. Figures are sampled at every percent
of arrived demand.
"""

import random
from abc import ABC, abstractmethod
from collections import Counter

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.decision import main_reason
from tonnage.framework.session import Session
from tonnage.simulator.placer import CyclePlacer, Placer
from tonnage.simulator.policies import Policy
from tonnage.simulator.run import Meter, Run
from tonnage.simulator.scene import Entry, Scene, SceneError, Shape, Tasks
from tonnage.simulator.shortcut import actions_of, acts_on_single_pods
from tonnage.simulator.studies.comparison import FULL_DEMAND

_MOST_WITHOUT_GPU = 100_000
"""The number of consecutive entries without GPUs after which demand is not expected to grow."""


def fill(scene: Scene, policy: Policy, seed: int, demand: int = 130, keep: bool = False, picture: int = 100) -> Run:
    """Fill a cluster up to a demand in percent of its GPUs; with `keep`, pods that do not fit wait."""
    scene = scene.mixed(random.Random(f"nodes {seed}"))
    cluster = scene.cluster(default_vendors())
    meter = Meter(scene, cluster, str(min(picture, demand)))
    if not meter.gpus:
        raise SceneError("the cluster has no GPUs; filling needs some, as demand is a part of them")
    settings = policy.settings(scene, seed)
    session = Session(cluster, settings.plugins, brief=True)
    with session:
        if acts_on_single_pods(scene, settings, session):
            placer: _EntryPlacer = _PodPlacer(cluster, session)
        else:
            placer = _ActionPlacer(cluster, CyclePlacer(cluster, settings.plugins, actions_of(settings)), keep)
        return _FillRun(scene, meter, placer, demand, keep).run(random.Random(seed))


class _FillRun:
    """One fill run: pods arrive, and figures are sampled."""

    def __init__(self, scene: Scene, meter: Meter, placer: "_EntryPlacer", demand: int, keep: bool) -> None:
        self._scene = scene
        self._meter = meter
        self._placer = placer
        self._demand = demand
        self._left_out = "pods_waiting" if keep else "pods_failed"
        self._failures: Counter[str] = Counter()
        """The failures until the checkpoint at which policies are compared."""

    def run(self, rng: random.Random) -> Run:
        capacity, arrived, pods, checkpoint = float(self._meter.gpus), 0.0, 0, 0
        idle = 0
        self._look(checkpoint)
        for number, entry in enumerate(self._scene.fill(rng)):
            self._placer.place(entry, f".{number}")
            arrived += entry.gpus
            pods += entry.size
            while checkpoint < self._demand and arrived * 100 >= (checkpoint + 1) * capacity - 1e-6:
                checkpoint += 1
                self._look(checkpoint)
            if checkpoint == self._demand:
                break
            idle = 0 if entry.gpus else idle + 1
            if idle > _MOST_WITHOUT_GPU:
                raise SceneError("no pod asks for a GPU; filling needs some that do, as demand is a part of all GPUs")
        return self._meter.result(self._failures, pods)

    def _look(self, checkpoint: int) -> None:
        self._meter.look(str(checkpoint), {self._left_out: float(self._placer.failures.total())})
        if checkpoint <= FULL_DEMAND:
            self._failures = self._placer.failures.copy()


class _EntryPlacer(ABC):
    """A way to place entries."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()

    @abstractmethod
    def place(self, entry: Entry, suffix: str) -> None:
        """Place the pods of an entry, or count them as failed; the suffix makes names unique."""


class _PodPlacer(_EntryPlacer):
    """Places single pods; once a pod does not fit, no other of its shape does, because room only shrinks."""

    def __init__(self, cluster: Cluster, session: Session) -> None:
        super().__init__()
        self._cluster = cluster
        self._session = session
        self._tasks = Tasks(cluster.vendors)
        self._hopeless: dict[Shape, str] = {}

    def place(self, entry: Entry, suffix: str) -> None:
        reason = self._hopeless.get(entry.shape)
        if reason is not None:
            self.failures[reason] += 1
            return
        task = self._tasks.of(entry, suffix)
        decision = self._session.place(task)
        if decision.node is not None:
            self._cluster.confirm(task.key)
            return
        reason = main_reason(decision)
        self.failures[reason] += 1
        if decision.is_of_class:
            self._hopeless[entry.shape] = reason


class _ActionPlacer(_EntryPlacer):
    """Places pods by the configured actions, gangs as a whole."""

    def __init__(self, cluster: Cluster, placer: Placer, keep: bool) -> None:
        super().__init__()
        self._cluster = cluster
        self._placer = placer
        self._keep = keep

    def place(self, entry: Entry, suffix: str) -> None:
        waiting = self._cluster.waiting
        tasks: list[Task] = []
        for pod in entry.pods(suffix):
            self._cluster.upsert_pod(pod)
            tasks.append(waiting[pod.key])
            self._placer.arrive(tasks[-1])
        self._placer.place(False)
        for task in tasks:
            decision = self._placer.about(task) if task.key in waiting else None
            if decision is not None:
                self.failures[main_reason(decision)] += 1
                if not self._keep:
                    self._cluster.remove_pod(task.key)
