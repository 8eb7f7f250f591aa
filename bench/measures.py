"""What is measured: each function gives one figure in the unit that its row of the table names."""

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.workload import apart_pod, bench_node, bench_pod, mixed_pods, running_pod
from tests.reference import ObjectScheduler
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring.binpack import Binpack
from tonnage.plugins.scoring.nodeorder import NodeOrder
from tonnage.plugins.scoring.noderesourcesfit import NodeResourcesFit

STRETCH = 250
"""Placements that are timed together."""


class Spent(NamedTuple):
    """Seconds of one core per operation."""

    mean: float
    fastest: float
    """In the fastest of many short stretches: other users of a machine only ever make it slower."""


class LooksAtEachNode(Plugin):
    """A user's plugin that scores one node at a time."""

    name = "looks-at-each-node"

    def on_session_open(self, session: Session) -> None:
        session.add_node_order(lambda task, node: 1.0 if node.labels.get("pool") == "pool-1" else 0.0)


def full_plugins() -> list[Plugin]:
    """The stock plugins with every scoring plugin beside them."""
    binpack = Binpack(Binpack.Arguments(resources={"nvidia.com/gpu": 5}))
    return [*default_plugins(), binpack, NodeResourcesFit(), NodeOrder()]


def seconds_per_placement(
    cluster: Cluster, count: int, seed: int = 0, plugins: Callable[[], list[Plugin]] = default_plugins
) -> Spent:
    """Time for deciding, recording and holding a placement; pods that stay waiting count too."""
    tasks = [make_task(pod, cluster.vendors) for pod in mixed_pods(count, seed)]
    stretches: list[float] = []
    with Session(cluster, plugins()) as session:
        for pod in mixed_pods(200, seed + 1):
            session.decide(make_task(pod, cluster.vendors))
        gc.collect()
        gc.freeze()
        for begin in range(0, count, STRETCH):
            start = time.process_time()
            for task in tasks[begin : begin + STRETCH]:
                session.place(task)
            stretches.append((time.process_time() - start) / STRETCH)
        for task in tasks:
            session.unplace(task.key)
        gc.unfreeze()
    return Spent(statistics.mean(stretches), min(stretches))


def seconds_per_first_decision(cluster: Cluster, more: Sequence[Plugin] = (), count: int = 30) -> float:
    """Time of one core for the first decision about a shape that no pod had before, at its fastest."""
    tasks = [make_task(bench_pod(f"new-{n}", 1, 9001 + n, 7), cluster.vendors) for n in range(count)]
    spent: list[float] = []
    with Session(cluster, [*default_plugins(), *more]) as session:
        session.decide(make_task(bench_pod("warm", 1, 9000, 7), cluster.vendors))
        for task in tasks:
            start = time.perf_counter()
            session.decide(task)
            spent.append(time.perf_counter() - start)
    return min(spent)


def seconds_per_placement_apart(cluster: Cluster, count: int = 200) -> float:
    """Time of one core for placing a pod that repels its like, once its labels are counted, at its fastest."""
    tasks = [make_task(apart_pod(number), cluster.vendors) for number in range(count)]
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
    """Time of one core for working out what a pod needs."""
    pods = list(mixed_pods(count))
    start = time.process_time()
    for pod in pods:
        make_task(pod, cluster.vendors)
    return (time.process_time() - start) / count


def seconds_per_object_placement(nodes: int, running: int, count: int) -> float:
    """The same placements by a straightforward scheduler that loops over objects."""
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
    """Peak resident memory in MB of a fresh process that holds such a cluster and has placed pods on it."""
    program = (
        "from bench.workload import bench_cluster\n"
        "from bench.measures import seconds_per_placement\n"
        f"seconds_per_placement(bench_cluster({nodes}, {running}), 500)\n"
        # What getrusage tells still counts the process that started this one.
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(next(int(line.split()[1]) / 1000 for line in lines if line.startswith('VmHWM')))\n"
    )
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    return float(done.stdout)


def start_up_ratio(runs: int = 15) -> float:
    """Time of `tonnage --help` over that of a Python that only imports click, the fastest of several runs each."""

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
    """Seconds for one small NumPy operation, which says how fast this machine is at this moment."""
    import timeit

    import numpy as np

    numbers = np.zeros(20)
    return min(timeit.repeat(lambda: numbers + 1.0, number=5000, repeat=5)) / 5000
