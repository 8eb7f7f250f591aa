"""Replays of traces and workloads: times that can be worked out by hand, gangs, queues, and pods that are stopped."""

from pathlib import Path

import pytest

from tests.scenario import node, pod, running
from tests.simulator.traces.files import TIMED, simulate, trace, workload, write
from tonnage.manifests.objects import Manifests
from tonnage.simulator.policies import Policy
from tonnage.simulator.run import Run
from tonnage.simulator.scene import SceneError
from tonnage.simulator.source import SceneSource
from tonnage.simulator.timedrun import replay

ONE_GPU = "a,8000,1000,1,T4\n"


def line(name: str, created: object, deleted: object, started: object = "", milli: int = 1000) -> str:
    return f"{name},1000,10,1,{milli},,LS,Running,{created},{deleted},{started}\n"


def test_pods_wait_for_the_one_gpu_in_turn(tmp_path):
    """Three pods of 100 s that come 10 s apart: they wait 0, 90 and 180 s, and are done after 100, 190 and 280 s."""
    source = trace(tmp_path, ONE_GPU, line("x", 0, 100) + line("y", 10, 110) + line("z", 20, 120), TIMED)
    run = simulate(source, mode="replay")
    assert run.waiting_time == {"50": 90, "90": 180, "95": 180, "99": 180, "100": 180, "mean": 90}
    assert run.completion_time == {"50": 190, "90": 280, "95": 280, "99": 280, "100": 280, "mean": 190}
    assert run.curves["pods_waiting"][0] == 0
    assert run.curves["pods_waiting"][-1] == 2
    assert run.checkpoints == [str(second) for second in range(21)]
    assert not run.failures


def test_a_pod_runs_as_long_as_it_ran_not_as_long_as_it_waited(tmp_path):
    source = trace(tmp_path, ONE_GPU, line("x", 100, 200, 150), TIMED)
    assert simulate(source, mode="replay").completion_time["mean"] == 50


def test_times_may_be_dates(tmp_path):
    dates = line("x", "2026-01-05T06:00:00Z", "2026-01-05T06:01:40Z") + line(
        "y", "2026-01-05T07:00:10+01:00", "2026-01-05T06:01:50Z"
    )
    run = simulate(trace(tmp_path, ONE_GPU, dates, TIMED), mode="replay")
    assert run.waiting_time["100"] == 90


def test_two_halves_share_a_gpu_and_nobody_waits(tmp_path):
    source = trace(tmp_path, ONE_GPU, line("x", 0, 100, milli=500) + line("y", 10, 110, milli=500), TIMED)
    run = simulate(source, mode="replay")
    assert run.waiting_time["100"] == 0
    assert run.curves["gpu_allocated"] == [50.0] * 10 + [100.0]


def test_a_pod_that_fits_nowhere_waits_for_ever_and_is_counted(tmp_path):
    run = simulate(
        trace(tmp_path, ONE_GPU, line("x", 0, 9) + "y,9000,10,0,0,,LS,Running,1,2,1\n", TIMED), mode="replay"
    )
    assert run.failures == {"InsufficientCpu": 1}
    assert run.completion_time["100"] == 9


def test_a_trace_without_times_cannot_be_replayed(tmp_path):
    with pytest.raises(SceneError, match="pods does not say when pods come and go"):
        simulate(trace(tmp_path, ONE_GPU, "x,1000,10,1,1000\n"), mode="replay")


# -- invented workloads

GANG = """
    duration: 10
    nodes: [{name: a, count: 2, gpus: 2, cpu: 8, memory: 16Gi}]
    arrivals: {mean: 10}
    pods: [{name: gang, share: 1, gpus: 2, gang: 2, cpu: 1, memory: 1Gi, duration: {mean: 30}}]
"""


def test_a_gang_starts_once_there_is_room_for_all_of_it():
    """Two gangs of the whole cluster, ten seconds apart, of 30 s each: the second waits for 20 s."""
    run = simulate(workload(GANG.replace("duration: 10\n", "duration: 20\n")), mode="replay")
    assert run.pods == 4
    assert run.waiting_time["50"] == 0
    assert run.waiting_time["100"] == 20
    assert run.completion_time["100"] == 50


QUEUES = """
    duration: 40
    nodes: [{name: a, count: 1, gpus: 4, cpu: 64, memory: 64Gi}]
    queues: [{name: small, limit: {nvidia.com/gpu: 1}}, {name: large}]
    arrivals: {mean: 10}
    pods: [{name: p, share: 1, gpus: 1, cpu: 1, memory: 1Gi, queue: small, duration: {mean: 100}}]
"""


def test_a_queue_at_its_limit_keeps_its_pods_waiting_although_there_is_room():
    limited = simulate(workload(QUEUES), mode="replay")
    free = simulate(workload(QUEUES.replace("queue: small", "queue: large")), mode="replay")
    assert free.waiting_time["100"] == 0
    assert limited.waiting_time["100"] == 270
    assert limited.curves["gpu_allocated"][-1] == 25.0


def test_the_same_seed_gives_the_same_workload_and_another_one_another():
    text = GANG.replace("{mean: 10}", "{distribution: exponential, mean: 3}").replace(
        "duration: 10\n", "duration: 99\n"
    )
    runs = [simulate(workload(text), seed=seed, mode="replay") for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_workload_comes_to_a_cluster_that_is_there_already():
    start = Manifests(nodes=[node("real", gpus=1)], pods=[running("x", on="real", gpu=0, memory=8000), pod("w", 1)])
    described = workload(
        """
        duration: 10
        arrivals: {mean: 5}
        pods: [{name: p, share: 1, cpu: 1, memory: 1Gi, duration: {mean: 30}}]
        """
    )
    run = simulate(SceneSource(workload=described.workload, start=start), mode="replay")
    assert run.nodes == 1
    assert run.pods == 3
    assert run.failures == {"CardInsufficientMemory": 1}
    assert run.curves["gpu_allocated"][-1] == 100.0


PREEMPT = """
actions: "allocate, preempt"
tiers: [{plugins: [{name: priority}, {name: gang}, {name: anybody}]}]
"""
ANYBODY = """
from tonnage.api import Plugin

class Anybody(Plugin):
    name = "anybody"

    def on_session_open(self, session):
        session.add_preemptable(lambda job, victims: list(victims))
"""
IMPORTANT = """
    duration: 100
    nodes: [{name: a, count: 1, gpus: 1, cpu: 8, memory: 16Gi}]
    arrivals: {mean: 10}
    pods:
    - {name: low, share: 1, gpus: 1, cpu: 1, memory: 1Gi, preemptible: true, duration: {mean: 1000}}
    - {name: high, share: 1, gpus: 1, cpu: 1, memory: 1Gi, priority: 9, duration: {mean: 5}}
"""


def strictly(folder: Path, source: SceneSource, seed: int) -> Run:
    plugin = write(folder, "anybody.py", ANYBODY)
    return replay(source.scene(), Policy("strict", PREEMPT, "strict.yaml", (plugin,)), seed)


def test_what_is_stopped_for_a_more_important_pod_runs_again_from_its_beginning(tmp_path):
    source = workload(IMPORTANT)
    polite, strict = simulate(source, seed=3, mode="replay"), strictly(tmp_path, source, 3)
    assert strict.pods == polite.pods
    assert not strict.failures
    assert not polite.failures
    assert strict.waiting_time["50"] < polite.waiting_time["50"]
    assert strict.completion_time["100"] > polite.completion_time["100"]


def test_cards_are_never_over_committed_while_pods_are_stopped(tmp_path):
    run = strictly(tmp_path, workload(IMPORTANT.replace("duration: 100\n", "duration: 1000\n")), 5)
    assert max(run.curves["gpu_allocated"]) == 100.0
    assert not run.failures
