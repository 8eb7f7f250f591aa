"""How fast `tonnage scheduler` binds, next to kube-scheduler alone, with a real API server; and what it costs idle.

    python -m bench.scheduler [singles] [gangs] [urgent] [impossible] [memory] [idle]

All pods are created first; the clock starts with the scheduler, and again with the first pod that is bound.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.e2e import definitions
from tests.e2e.batching import Scheduler, create, gang, wanted
from tests.scenario import plain
from tonnage.lab.api import Api, pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

PATIENCE = 200.0


def waiting(api: Api) -> int:
    return len(api.get("/api/v1/pods", fieldSelector="spec.nodeName=")["items"])


def timed(plane: ControlPlane, count: int, start: Callable[[], object]) -> str:
    """Start a scheduler and wait until it has bound everything."""
    begun = time.monotonic()
    start()
    first = 0.0
    while left := waiting(plane.api):
        if not first and left < count:
            first, left_then = time.monotonic(), left
        assert time.monotonic() - begun < PATIENCE, f"{left} still wait"
        time.sleep(0.3)
    end = time.monotonic()
    steady = left_then / (end - first) if first else count / (end - begun)
    pods = plane.api.get("/api/v1/pods")["items"]
    nodes = len({one["spec"]["nodeName"] for one in pods})
    return f"{count / (end - begun):.0f} pods/s with start-up, {steady:.0f} pods/s after the first, {nodes} nodes used"


def run(kind: str, nodes: int, make: Callable[[str], Sequence[dict[str, object]]]) -> None:
    for scheduler, measure in (("default-scheduler", kube_scheduler), ("tonnage", tonnage)):
        with ControlPlane() as plane:
            plane.api.create_nodes(plain(f"n{number:04}", 8) for number in range(nodes))
            pods = make(scheduler)
            create(plane.api, pods)
            print(f"{kind}, {nodes} nodes: {measure.__name__}: {measure(plane, len(pods))}", flush=True)


def kube_scheduler(plane: ControlPlane, count: int) -> str:
    return timed(plane, count, lambda: plane.run_scheduler({}))


def tonnage(plane: ControlPlane, count: int) -> str:
    made: list[Scheduler] = []
    said = timed(plane, count, lambda: made.append(Scheduler(plane.kubeconfig(), plane.folder / "tonnage.log")))
    memory = made[0].metric("process_resident_memory_bytes") / 2**20
    said += f", {memory:.0f} MiB, {made[0].cpu_seconds():.1f} s of a processor"
    made[0].stop()
    return said


def singles(scheduler: str) -> list[dict[str, object]]:
    return [pod_manifest(wanted(f"p{number:04}", 1, scheduler=scheduler)) for number in range(500)]


def gangs(scheduler: str) -> list[dict[str, object]]:
    members = [member for number in range(500) for member in gang(f"g{number:03}", 4, 1)]
    for member in members:
        member["spec"]["schedulerName"] = scheduler
    return members


@contextmanager
def cluster(nodes: int, full: int = 0) -> Iterator[ControlPlane]:
    """A control plane with nodes of 8 GPUs, some of which are full of running pods."""
    with ControlPlane() as plane:
        plane.api.create_nodes(plain(f"n{number:04}", 8) for number in range(nodes))
        plane.api.create_pods(wanted(f"p{number:04}", 1, on=f"n{number // 8:04}") for number in range(8 * full))
        yield plane


@contextmanager
def started(plane: ControlPlane) -> Iterator[Scheduler]:
    scheduler = Scheduler(plane.kubeconfig(), plane.folder / "tonnage.log")
    try:
        yield scheduler
    finally:
        scheduler.stop()


def until(holds: Callable[[], object]) -> float:
    """When it came true."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return time.monotonic()


def urgent() -> None:
    """A gang of higher priority that comes while 500 others are being bound."""
    with cluster(1000) as plane:
        api = plane.api
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**made, "value": 1000})
        create(api, gangs("tonnage"))
        members = gang("urgent", 4, 1)
        for member in members:
            member["spec"]["priorityClassName"] = "urgent"
        with started(plane) as scheduler:
            until(lambda: scheduler.metric("tonnage_binds_in_flight") > 0)
            create(api, members)
            begun, left = time.monotonic(), waiting(api)
            paths = [f"{pods_path()}/{member['metadata']['name']}" for member in members]
            took = until(lambda: all(api.get(path)["spec"].get("nodeName") for path in paths)) - begun
        print(f"urgent gang behind {left} waiting pods: bound after {took:.2f} s", flush=True)


def impossible() -> None:
    """A gang of 10 x 8 GPUs on 500 full nodes: when it is told why, and when it is bound once there is room."""
    with cluster(500, full=500) as plane:
        api = plane.api
        definitions.install(api, "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh")
        with started(plane) as scheduler:
            groups = f"{definitions.VOLCANO}/namespaces/default/podgroups"
            version = definitions.VOLCANO.removeprefix("/apis/")
            group = {
                "apiVersion": version,
                "kind": "PodGroup",
                "metadata": {"name": "large"},
                "spec": {"minMember": 10},
            }
            until(lambda: scheduler.metric("tonnage_informer_synced") == 1)
            api.create(groups, group)
            notes = {"scheduling.k8s.io/group-name": "large"}
            api.create_pods(wanted(f"large-{number}", 8, annotations=notes) for number in range(10))
            begun = time.monotonic()
            names = [f"{pods_path()}/large-{number}" for number in range(10)]
            asked = [*names, f"{groups}/large"]
            told = until(lambda: all("0 of 500 nodes fit" in str(api.get(one).get("status")) for one in asked))
            cycles = scheduler.metric("tonnage_cycle_duration_seconds_count")
            time.sleep(5)
            cycles = scheduler.metric("tonnage_cycle_duration_seconds_count") - cycles
            print(f"impossible gang, 500 full nodes: reasons on pods and PodGroup after {told - begun:.2f} s,")
            print(f"  {cycles:.0f} cycles in the 5 s after that,", flush=True)
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda number: api.delete(f"{pods_path()}/p{number:04}"), range(80)))
            begun = time.monotonic()
            bound = until(lambda: all(api.get(name)["spec"].get("nodeName") for name in names))
            print(f"  bound {bound - begun:.2f} s after room was made", flush=True)


def memory() -> None:
    """1,000 nodes with 8,000 running and 2,000 waiting pods."""
    with cluster(1000, full=1000) as plane:
        create(plane.api, gangs("tonnage"))
        with started(plane) as scheduler:
            time.sleep(20)
            held = scheduler.metric("process_resident_memory_bytes") / 2**20
        print(f"memory, 1,000 nodes, 10,000 pods: {held:.0f} MiB", flush=True)


def idle() -> None:
    """500 nodes, 4,000 running pods, nothing to do."""
    with cluster(500, full=500) as plane, started(plane) as scheduler:
        time.sleep(3)
        before, seconds = scheduler.cpu_seconds(), 20.0
        time.sleep(seconds)
        spent = scheduler.cpu_seconds() - before
        held = scheduler.metric("process_resident_memory_bytes") / 2**20
        print(f"idle, 500 nodes, 4,000 pods: {spent / seconds:.2%} of a core, {held:.0f} MiB", flush=True)


def main() -> None:
    others = {"urgent": urgent, "impossible": impossible, "memory": memory, "idle": idle}
    asked = sys.argv[1:] or ["singles", "gangs", *others]
    if "singles" in asked:
        run("500 single pods", 100, singles)
    if "gangs" in asked:
        run("500 gangs of 4", 1000, gangs)
    for name, measure in others.items():
        if name in asked:
            measure()


if __name__ == "__main__":
    main()
