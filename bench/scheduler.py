"""`python -m bench.scheduler`: `tonnage scheduler` on a real API server, next to kube-scheduler alone.

All pods exist before the scheduler starts. One rate counts from its start, the other from its first bind.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from bench.binds import BindWatch
from bench.control_planes import ControlPlanes, control_planes
from bench.report import BenchmarkError, Report, argument_parser, publish
from bench.transport import bind_all
from tests.e2e.batching import Scheduler, create, gang, wanted
from tests.scenario import plain
from tonnage.lab import definitions
from tonnage.lab.api import Api, pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import Program

PATIENCE = 200.0
GPUS = 8
MEMBERS = 4
"""Pods of a gang."""
Running = TypeVar("Running", Program, Scheduler)


class Sizes(NamedTuple):
    """Nodes and pods of each measurement, and seconds of waiting."""

    single_pods: int
    single_nodes: int
    gangs: int
    gang_nodes: int
    full_nodes: int
    large_gang: int
    watched: float
    settled: float
    idle: float


FULL = Sizes(
    single_pods=500,
    single_nodes=100,
    gangs=500,
    gang_nodes=1000,
    full_nodes=500,
    large_gang=10,
    watched=5.0,
    settled=20.0,
    idle=20.0,
)
QUICK = Sizes(
    single_pods=20,
    single_nodes=5,
    gangs=10,
    gang_nodes=10,
    full_nodes=5,
    large_gang=2,
    watched=0.5,
    settled=0.5,
    idle=0.5,
)


class Benchmark:
    """The measurements of one run."""

    def __init__(self, report: Report, planes: ControlPlanes, sizes: Sizes) -> None:
        self._report = report
        self._planes = planes
        self._sizes = sizes

    # -- throughput

    def singles(self) -> None:
        """Single pods of one GPU."""
        count, nodes = self._sizes.single_pods, self._sizes.single_nodes

        def make(scheduler: str) -> list[dict[str, Any]]:
            return [pod_manifest(wanted(f"p{number:04}", 1, scheduler=scheduler)) for number in range(count)]

        name = f"{count:,} single pods, {nodes:,} nodes"
        self._compare(name, nodes, make)
        with self._cluster(nodes) as plane:
            create(plane.api, make("nobody"))
            seconds = bind_all(plane, [(f"p{number:04}", f"n{number % nodes:04}") for number in range(count)])
            self._report.add(f"{name}, transport alone", count / seconds, "pods/s")

    def gangs(self) -> None:
        """Gangs of four pods, which kube-scheduler binds one by one."""
        nodes = self._sizes.gang_nodes
        self._compare(f"{self._sizes.gangs:,} gangs of {MEMBERS}, {nodes:,} nodes", nodes, self._gangs)

    def _compare(self, name: str, nodes: int, make: Callable[[str], Sequence[dict[str, Any]]]) -> None:
        with self._cluster(nodes) as plane:
            pods = make("default-scheduler")
            create(plane.api, pods)
            self._throughput(f"{name}, kube-scheduler", plane, len(pods), lambda: plane.run_scheduler({})).stop()
        with self._cluster(nodes) as plane:
            create(plane.api, make("tonnage"))
            scheduler = self._throughput(f"{name}, tonnage", plane, len(pods), lambda: _scheduler(plane))
            self._report.add(f"{name}, tonnage: memory", _resident(scheduler), "MiB")
            self._report.add(f"{name}, tonnage: CPU time", scheduler.cpu_seconds(), "s")
            scheduler.stop()

    def _throughput(self, name: str, plane: ControlPlane, count: int, start: Callable[[], Running]) -> Running:
        """Start a scheduler and wait until it has bound all pods; it keeps running."""
        with BindWatch(plane) as watch:
            begun = time.monotonic()
            program = start()
            bound = watch.wait(count, begun + PATIENCE)
        if bound < count:
            raise BenchmarkError(f"{name}: {count - bound} of {count} pods are not bound after {PATIENCE:.0f} s")
        first, end = watch.times[0], watch.times[-1]
        steady = (count - 1) / (end - first)
        self._report.add(f"{name}: first bind after its start", first - begun, "s")
        pods = plane.api.get("/api/v1/pods")["items"]
        self._report.add(f"{name}: from its start", count / (end - begun), "pods/s")
        self._report.add(f"{name}: from the first bind", steady, "pods/s")
        self._report.add(f"{name}: nodes used", len({one["spec"]["nodeName"] for one in pods}), "")
        return program

    # -- latency

    def urgent(self) -> None:
        """A gang of higher priority that arrives while the scheduler binds other gangs."""
        with self._cluster(self._sizes.gang_nodes) as plane:
            api = plane.api
            made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
            api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**made, "value": 1000})
            create(api, self._gangs("tonnage"))
            members = gang("urgent", MEMBERS, 1)
            for member in members:
                member["spec"]["priorityClassName"] = "urgent"
            paths = [f"{pods_path()}/{member['metadata']['name']}" for member in members]
            with _started(plane) as scheduler:
                _until(lambda: scheduler.metric("tonnage_bind_duration_seconds_count") > 0, "no pod is bound")
                create(api, members)
                begun, left = time.monotonic(), _pending(api)
                took = _until(lambda: _are_bound(api, paths), "the urgent gang is not bound") - begun
            self._report.add("urgent gang: pending pods before it", left, "")
            self._report.add("urgent gang: until bound", took, "s")

    def unschedulable(self) -> None:
        """A gang on full nodes: until its reasons are written, and until it is bound once pods have gone."""
        nodes, size = self._sizes.full_nodes, self._sizes.large_gang
        with self._cluster(nodes, full=nodes) as plane:
            api = plane.api
            definitions.install(api, "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh")
            name = f"unschedulable gang of {size} × {GPUS} GPUs, {nodes:,} full nodes"
            with _started(plane) as scheduler:
                group = _create_gang(api, size)
                begun = time.monotonic()
                names = [f"{pods_path()}/large-{number}" for number in range(size)]
                words = f"0 of {nodes} nodes fit"
                written = _until(
                    lambda: all(words in str(api.get(one).get("status")) for one in [*names, group]), "no reasons"
                )
                self._report.add(f"{name}: until reasons on pods and PodGroup", written - begun, "s")
                cycles = scheduler.metric("tonnage_cycle_duration_seconds_count")
                time.sleep(self._sizes.watched)
                cycles = scheduler.metric("tonnage_cycle_duration_seconds_count") - cycles
                self._report.add(f"  cycles in the next {self._sizes.watched:g} s", cycles, "")
                with ThreadPoolExecutor(16) as pool:
                    list(pool.map(lambda number: api.delete(f"{pods_path()}/p{number:04}"), range(size * GPUS)))
                begun = time.monotonic()
                took = _until(lambda: _are_bound(api, names), "the gang is not bound") - begun
                self._report.add("  until bound after its nodes are free", took, "s")

    # -- cost

    def memory(self) -> None:
        """A full cluster with pending gangs."""
        nodes = self._sizes.gang_nodes
        with self._cluster(nodes, full=nodes) as plane:
            create(plane.api, self._gangs("tonnage"))
            with _started(plane) as scheduler:
                time.sleep(self._sizes.settled)
                held = _resident(scheduler)
        pods = nodes * GPUS + self._sizes.gangs * MEMBERS
        self._report.add(f"memory, {nodes:,} nodes, {pods:,} pods", held, "MiB")

    def idle(self) -> None:
        """Running pods and nothing pending."""
        nodes, seconds = self._sizes.full_nodes, self._sizes.idle
        with self._cluster(nodes, full=nodes) as plane, _started(plane) as scheduler:
            time.sleep(seconds * 0.15)
            before = scheduler.cpu_seconds()
            time.sleep(seconds)
            spent = scheduler.cpu_seconds() - before
            name = f"idle, {nodes:,} nodes, {nodes * GPUS:,} pods"
            self._report.add(f"{name}: CPU", 100 * spent / seconds, "%")
            self._report.add(f"{name}: memory", _resident(scheduler), "MiB")

    # -- clusters

    @contextmanager
    def _cluster(self, nodes: int, full: int = 0) -> Iterator[ControlPlane]:
        """A control plane with nodes of eight GPUs; the first `full` of them are full of running pods."""
        with self._planes.empty() as plane:
            plane.api.create_nodes(plain(f"n{number:04}", GPUS) for number in range(nodes))
            plane.api.create_pods(
                wanted(f"p{number:04}", 1, on=f"n{number // GPUS:04}") for number in range(GPUS * full)
            )
            yield plane

    def _gangs(self, scheduler: str) -> list[dict[str, Any]]:
        members = [member for number in range(self._sizes.gangs) for member in gang(f"g{number:03}", MEMBERS, 1)]
        for member in members:
            member["spec"]["schedulerName"] = scheduler
        return members


MEASURES: dict[str, Callable[[Benchmark], None]] = {
    "singles": Benchmark.singles,
    "gangs": Benchmark.gangs,
    "urgent": Benchmark.urgent,
    "unschedulable": Benchmark.unschedulable,
    "memory": Benchmark.memory,
    "idle": Benchmark.idle,
}


def _scheduler(plane: ControlPlane) -> Scheduler:
    return Scheduler(plane.kubeconfig(), plane.folder / "tonnage.log")


@contextmanager
def _started(plane: ControlPlane) -> Iterator[Scheduler]:
    scheduler = _scheduler(plane)
    try:
        yield scheduler
    finally:
        scheduler.stop()


def _create_gang(api: Api, size: int) -> str:
    """A Volcano PodGroup with its pods of eight GPUs; the path of the PodGroup."""
    groups = f"{definitions.VOLCANO}/namespaces/default/podgroups"
    version = definitions.VOLCANO.removeprefix("/apis/")
    kind = {"apiVersion": version, "kind": "PodGroup"}
    api.create(groups, {**kind, "metadata": {"name": "large"}, "spec": {"minMember": size}})
    annotations = {"scheduling.k8s.io/group-name": "large"}
    api.create_pods(wanted(f"large-{number}", GPUS, annotations=annotations) for number in range(size))
    return f"{groups}/large"


def _pending(api: Api) -> int:
    return len(api.get("/api/v1/pods", fieldSelector="spec.nodeName=")["items"])


def _are_bound(api: Api, paths: Sequence[str]) -> bool:
    return all(api.get(path)["spec"].get("nodeName") for path in paths)


def _resident(scheduler: Scheduler) -> float:
    return scheduler.metric("process_resident_memory_bytes") / 2**20


def _until(holds: Callable[[], object], otherwise: str) -> float:
    """The time at which it holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{otherwise} after {PATIENCE:.0f} s")
        time.sleep(0.02)
    return time.monotonic()


def main() -> int:
    parser = argument_parser("bench.scheduler", __doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"all by default: {', '.join(MEASURES)}")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.measures) - MEASURES.keys()):
        parser.error(f"no such measure: {', '.join(unknown)}; there are {', '.join(MEASURES)}")

    def measure(report: Report) -> None:
        with control_planes(arguments.quick) as planes:
            benchmark = Benchmark(report, planes, QUICK if arguments.quick else FULL)
            for name, run in MEASURES.items():
                if name in (arguments.measures or MEASURES):
                    run(benchmark)

    return publish(arguments, measure)


if __name__ == "__main__":
    sys.exit(main())
