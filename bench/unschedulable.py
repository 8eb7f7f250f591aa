"""`python -m bench.unschedulable`: `tonnage scheduler` with very many unschedulable pods on a real API server.

All pods exist before the scheduler starts. The report gives its start-up, the latency of /healthz and of its Lease, its
memory, and how long a pod that fits waits behind the others: during the first look at them, after it, and during the
next.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.control_planes import control_planes
from bench.report import BenchmarkError, Report, argument_parser, publish
from tests.e2e.batching import Scheduler, create, wanted
from tests.scenario import plain
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tonnage-scheduler"
PODS, QUICK_PODS = 30_000, 60
NODES, QUICK_NODES = 100, 5
PATIENCE = 120.0
LONG_PATIENCE = 1800.0
"""Seconds until the scheduler has looked at every pod."""


class Poll:
    """A request that a thread repeats every 0.1 s; its slowest response, and when the response changed."""

    def __init__(self, request: Callable[[], Any]) -> None:
        self.slowest = 0.0
        self._changes: list[tuple[float, Any]] = []
        self._request = request
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            begun = time.monotonic()
            try:
                found = self._request()
            except OSError:
                continue
            self.slowest = max(self.slowest, time.monotonic() - begun)
            if not self._changes or self._changes[-1][1] != found:
                self._changes.append((time.monotonic(), found))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def longest_pause(self) -> float:
        """The longest time between two changes."""
        times = [when for when, _ in self._changes]
        return max((later - sooner for sooner, later in pairwise(times)), default=0.0)


def manifests(count: int) -> Iterator[dict[str, Any]]:
    """One pod in ten has an invalid request, two have a request of their own, the others ask for too many GPUs."""
    for number in range(count):
        name = f"p{number:06}"
        if number % 10 == 0:
            made = wanted(name, None, annotations={"gpu-fraction": f"abc{number % 100}"})
        elif number % 10 < 3:
            made = wanted(name, 8, cpu=f"{1000 + number}m")
        else:
            made = wanted(name, 8)
        yield pod_manifest(made)


def measure(report: Report, plane: ControlPlane, pods: int, nodes: int) -> None:
    plane.api.create_nodes(plain(f"n{number:03}", 4) for number in range(nodes))
    begun = time.monotonic()
    create(plane.api, manifests(pods))
    report.add(f"{pods:,} unschedulable pods, {nodes:,} nodes: until created", time.monotonic() - begun, "s")
    begun = time.monotonic()
    scheduler = Scheduler(plane.kubeconfig(), plane.folder / "tonnage.log")
    try:
        report.add("scheduler start until ready", time.monotonic() - begun, "s")
        report.add("  CPU time", scheduler.cpu_seconds(), "s")
        with _polls(report, plane, scheduler):
            report.add("pod that fits, during the first look: until bound", _until_bound(plane, "early"), "s")
            _wait_for_all(scheduler, pods)
            report.add("scheduler start until it has looked at all pods", time.monotonic() - begun, "s")
            report.add("  cycles", scheduler.metric("tonnage_cycle_duration_seconds_count"), "")
            report.add("pod that fits, after the first look: until bound", _until_bound(plane, "late"), "s")
            # The freed GPU makes the scheduler look at all pods again.
            plane.api.delete(f"{pods_path()}/late")
            report.add("pod that fits, during the next look: until bound", _until_bound(plane, "again"), "s")
        report.add("scheduler: peak memory", _peak_memory(scheduler.process.pid), "MiB")
        report.add("scheduler: CPU time", scheduler.cpu_seconds(), "s")
        for path in ("/metrics", "/debug/problems"):
            begun = time.monotonic()
            found = scheduler.get(path)
            report.add(f"{path}: latency", time.monotonic() - begun, "s")
            report.add(f"{path}: size", len(found) / 1000, "kB")
    finally:
        scheduler.stop()


@contextmanager
def _polls(report: Report, plane: ControlPlane, scheduler: Scheduler) -> Iterator[None]:
    health = Poll(lambda: scheduler.get("/healthz"))
    lease = Poll(lambda: plane.api.get(LEASE)["spec"]["renewTime"])
    try:
        yield
    finally:
        health.end()
        lease.end()
    report.add("/healthz: slowest response", health.slowest, "s")
    report.add("Lease: longest time between renewals", lease.longest_pause(), "s")


def _until_bound(plane: ControlPlane, name: str) -> float:
    begun = time.monotonic()
    plane.api.create_pods([wanted(name, 1)])
    while not plane.api.get(f"{pods_path()}/{name}")["spec"].get("nodeName"):
        time.sleep(0.05)
        if time.monotonic() - begun > PATIENCE:
            raise BenchmarkError(f"the pod {name} is not bound after {PATIENCE:.0f} s")
    return time.monotonic() - begun


def _wait_for_all(scheduler: Scheduler, pods: int) -> None:
    deadline = time.monotonic() + LONG_PATIENCE
    while (seen := scheduler.metric("tonnage_pods_unschedulable")) < pods:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the scheduler has looked at {seen:.0f} of {pods} pods after {LONG_PATIENCE:.0f} s")
        time.sleep(0.5)


def _peak_memory(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> int:
    parser = argument_parser("bench.unschedulable", __doc__)
    parser.add_argument("pods", nargs="?", type=int, metavar="PODS", help=f"{PODS:,} by default")
    arguments = parser.parse_args()
    pods = arguments.pods or (QUICK_PODS if arguments.quick else PODS)
    nodes = QUICK_NODES if arguments.quick else NODES

    def run(report: Report) -> None:
        with control_planes(arguments.quick) as planes, planes.empty() as plane:
            measure(report, plane, pods, nodes)

    return publish(arguments, run)


if __name__ == "__main__":
    sys.exit(main())
