"""How fast `tonnage scheduler` binds, next to kube-scheduler alone, with a real API server; and what it costs idle.

    python -m bench.scheduler [singles] [gangs] [idle]

All pods are created first; the clock starts with the scheduler, and again with the first pod that is bound.
"""

import sys
import time
from collections.abc import Callable, Sequence

from tests.cluster.batching import Scheduler, create, gang, wanted
from tests.scenario import plain
from tonnage.lab.api import Api, pod_manifest
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


def idle() -> None:
    """500 nodes, 4,000 running pods, nothing to do."""
    with ControlPlane() as plane:
        plane.api.create_nodes(plain(f"n{number:04}", 8) for number in range(500))
        running = [wanted(f"p{number:04}", 1, on=f"n{number // 8:04}") for number in range(4000)]
        plane.api.create_pods(running)
        scheduler = Scheduler(plane.kubeconfig(), plane.folder / "tonnage.log")
        time.sleep(3)
        before, seconds = scheduler.cpu_seconds(), 20.0
        time.sleep(seconds)
        spent = scheduler.cpu_seconds() - before
        memory = scheduler.metric("process_resident_memory_bytes") / 2**20
        scheduler.stop()
        print(f"idle, 500 nodes, 4,000 pods: {spent / seconds:.2%} of a core, {memory:.0f} MiB", flush=True)


def main() -> None:
    asked = sys.argv[1:] or ["singles", "gangs", "idle"]
    if "singles" in asked:
        run("500 single pods", 100, singles)
    if "gangs" in asked:
        run("500 gangs of 4", 1000, gangs)
    if "idle" in asked:
        idle()


if __name__ == "__main__":
    main()
