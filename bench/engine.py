"""Engine measurements: placements, first decisions, memory and start-up."""

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.workload import anti_affine_pod, bench_node, bench_pod, mixed_pods, running_pod
from tests.reference import ObjectScheduler
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.catalog import ALWAYS, plugins_named
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.fragmentation.expectedfill import ExpectedFill
from tonnage.plugins.scoring.binpack import Binpack
from tonnage.plugins.scoring.nodeorder import NodeOrder
from tonnage.plugins.scoring.noderesourcesfit import NodeResourcesFit

STRETCH = 250
"""Placements per timing."""


class Spent(NamedTuple):
    """Seconds of one core per operation."""

    mean: float
    fastest: float
    """The fastest of many short stretches, because other load only ever adds time."""


class ScoresEachNode(Plugin):
    """A user's plugin that scores one node at a time."""

    name = "scores-each-node"

    def on_session_open(self, session: Session) -> None:
        session.add_node_order(lambda task, node: 1.0 if node.labels.get("pool") == "pool-1" else 0.0)


def full_plugins() -> list[Plugin]:
    """The default plugins and three scoring plugins."""
    binpack = Binpack(Binpack.Arguments(resources={"nvidia.com/gpu": 5}))
    return [*default_plugins(), binpack, NodeResourcesFit(), NodeOrder()]


def expected_fill_plugins() -> list[Plugin]:
    """What every session has, and expected fill, which learns its typical pods from the cluster."""
    return [*plugins_named(ALWAYS), ExpectedFill()]


def seconds_per_placement(
    cluster: Cluster, count: int, seed: int = 0, plugins: Callable[[], list[Plugin]] = default_plugins
) -> Spent:
    """CPU time of deciding a placement and reserving its devices; unschedulable pods count too."""
    tasks = [make_task(pod, cluster.vendors) for pod in mixed_pods(count, seed)]
    stretches: list[float] = []
    with Session(cluster, plugins()) as session:
        for pod in mixed_pods(200, seed + 1):
            session.decide(make_task(pod, cluster.vendors))
        gc.collect()
        gc.freeze()
        for begin in range(0, count, STRETCH):
            stretch = tasks[begin : begin + STRETCH]
            start = time.process_time()
            for task in stretch:
                session.place(task)
            stretches.append((time.process_time() - start) / len(stretch))
        for task in tasks:
            session.unplace(task.key)
        gc.unfreeze()
    return Spent(statistics.mean(stretches), min(stretches))


def seconds_per_first_decision(cluster: Cluster, more: Sequence[Plugin] = (), count: int = 30) -> float:
    """Time of the first decision for a new pod class, the fastest of `count`."""
    tasks = [make_task(bench_pod(f"new-{n}", 1, 9001 + n, 7), cluster.vendors) for n in range(count)]
    spent: list[float] = []
    with Session(cluster, [*default_plugins(), *more]) as session:
        session.decide(make_task(bench_pod("warm", 1, 9000, 7), cluster.vendors))
        for task in tasks:
            start = time.perf_counter()
            session.decide(task)
            spent.append(time.perf_counter() - start)
    return min(spent)


def seconds_per_anti_affinity(cluster: Cluster, count: int = 200) -> float:
    """CPU time of placing a pod with anti-affinity to its own labels, the fastest; the first half warms up."""
    tasks = [make_task(anti_affine_pod(number), cluster.vendors) for number in range(count)]
    spent: list[float] = []
    with Session(cluster, default_plugins()) as session:
        session.decide(tasks[0])
        for task in tasks:
            start = time.process_time()
            session.place(task)
            spent.append(time.process_time() - start)
        for task in tasks:
            session.unplace(task.key)
    return min(spent[count // 2 :])


def seconds_per_task(cluster: Cluster, count: int = 2000) -> float:
    """CPU time of reading a pod's requests into a task."""
    pods = list(mixed_pods(count))
    start = time.process_time()
    for pod in pods:
        make_task(pod, cluster.vendors)
    return (time.process_time() - start) / count


def seconds_per_object_placement(nodes: int, running: int, count: int) -> float:
    """CPU time of the same placements by a reference scheduler that loops over objects."""
    scheduler = ObjectScheduler()
    for number in range(nodes):
        scheduler.add_node(bench_node(number))
    for number in range(running):
        scheduler.add_pod(running_pod(number, nodes))
    pods = list(mixed_pods(count))
    start = time.process_time()
    for pod in pods:
        scheduler.place(pod)
    return (time.process_time() - start) / count


def memory_of_cluster(nodes: int, running: int) -> float:
    """Peak resident memory in MB of a new process that builds the cluster and places 500 pods."""
    program = (
        "from bench.workload import bench_cluster\n"
        "from bench.engine import seconds_per_placement\n"
        f"seconds_per_placement(bench_cluster({nodes}, {running}), 500)\n"
        # getrusage would count the parent process too.
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(next(int(line.split()[1]) / 1000 for line in lines if line.startswith('VmHWM')))\n"
    )
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    return float(done.stdout)


def start_up_ratio(runs: int = 15) -> float:
    """Time of `tonnage --help` relative to a Python process that imports click, each the fastest of `runs`."""

    def fastest(command: list[str]) -> float:
        best = float("inf")
        for _ in range(runs):
            start = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            best = min(best, time.perf_counter() - start)
        return best

    tonnage = str(Path(sys.executable).with_name("tonnage"))
    return fastest([tonnage, "--help"]) / fastest([sys.executable, "-c", "import click"])


def yardstick() -> float:
    """Seconds of one small NumPy operation: the speed of this machine at this moment."""
    import timeit

    import numpy as np

    numbers = np.zeros(20)
    return min(timeit.repeat(lambda: numbers + 1.0, number=5000, repeat=5)) / 5000
