"""The timed run: a replay of a workload's arrivals and departures, sampled at regular times."""

import math
import random
from collections import Counter
from collections.abc import Iterator

from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.simulator.placer import ClassPlacer, CyclePlacer, Placer
from tonnage.simulator.policies import Policy
from tonnage.simulator.replay import Replay
from tonnage.simulator.run import Meter, Run
from tonnage.simulator.scene import Scene, SceneError
from tonnage.simulator.shortcut import actions_of, acts_on_single_pods
from tonnage.simulator.workloads.demo import Arrival

STEPS = 100
"""The number of samples while pods arrive."""


def replay(scene: Scene, policy: Policy, seed: int, picture: int = STEPS) -> Run:
    """Replay until all pods have arrived and left; the picture is taken after that many of 100 steps."""
    if scene.replay is None:
        raise SceneError(f"{scene.name} does not say when pods come and go; it can only fill a cluster")
    cluster = scene.cluster(default_vendors())
    times = checkpoints(scene.horizon)
    meter = Meter(scene, cluster, times[min(picture, len(times) - 1)][0])
    settings = policy.settings(scene, seed)
    session = Session(cluster, settings.plugins, brief=True)
    with session:
        if acts_on_single_pods(scene, settings, session):
            placer: Placer = ClassPlacer(cluster, session)
        else:
            placer = CyclePlacer(cluster, settings.plugins, actions_of(settings))
        replayed = Replay(cluster, placer, _arrivals(scene, random.Random(seed)), math.inf)
        for name, time in times:
            replayed.advance(time)
            meter.look(name, {"pods_waiting": float(len(replayed.waiting))})
        while replayed.next_time < math.inf:
            replayed.step()
        failures = Counter([replayed.main_reason(pod.task) for pod in replayed.waiting.values()])
    started = [pod.started - pod.since for pod in replayed.runs.values()]
    return meter.result(failures, replayed.arrived, [*replayed.waits, *started], replayed.completions)


def checkpoints(horizon: float) -> list[tuple[str, float]]:
    """Sample times up to the last arrival, with their names, in whole virtual seconds."""
    times = dict.fromkeys(math.ceil(horizon * step / STEPS) for step in range(STEPS + 1))
    return [(str(time), float(time)) for time in times]


def _arrivals(scene: Scene, rng: random.Random) -> Iterator[Arrival]:
    """The initial waiting pods, which never end, then those that arrive."""
    assert scene.replay is not None
    for pod in scene.start.pods:
        if pod.node is None:
            yield Arrival(0.0, math.inf, pod)
    for entry in scene.replay(rng):
        for pod in entry.pods():
            yield Arrival(entry.time, entry.duration, pod)
