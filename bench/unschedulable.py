"""Very many pods that cannot be placed, on a real API server: what `tonnage scheduler` does meanwhile.

python -m bench.flood [PODS]

It starts when all pods are there. Told are the time until it is ready and until everybody was looked at, the slowest
answer of /healthz, the longest time between two renewals of its Lease, memory, and how long pods that fit wait behind
the others: one that comes while these are looked at, and one that comes when that is done.
"""

import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.e2e.batching import Scheduler, create, wanted
from tests.scenario import plain
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tonnage-scheduler"


class Looks:
    """Asks for something again and again in a thread; what was seen, and when."""

    def __init__(self, ask: Any) -> None:
        self.slowest = 0.0
        self.seen: list[tuple[float, Any]] = []
        self._ask = ask
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            begun = time.monotonic()
            try:
                found = self._ask()
            except OSError:
                continue
            self.slowest = max(self.slowest, time.monotonic() - begun)
            if not self.seen or self.seen[-1][1] != found:
                self.seen.append((time.monotonic(), found))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def longest_pause(self) -> float:
        times = [when for when, _ in self.seen]
        return max((later - sooner for sooner, later in pairwise(times)), default=0.0)


def manifests(count: int) -> Any:
    """One in ten asks for what is no number, two for an amount of their own, the others for too many cards."""
    for number in range(count):
        name = f"p{number:06}"
        if number % 10 == 0:
            made = wanted(name, None, annotations={"gpu-fraction": f"abc{number % 100}"})
        elif number % 10 < 3:
            made = wanted(name, 8, cpu=f"{1000 + number}m")
        else:
            made = wanted(name, 8)
        yield pod_manifest(made)


def until_bound(plane: ControlPlane, name: str) -> float:
    begun = time.monotonic()
    plane.api.create_pods([wanted(name, 1)])
    while not plane.api.get(f"{pods_path()}/{name}")["spec"].get("nodeName"):
        time.sleep(0.05)
        assert time.monotonic() - begun < 120, "not bound"
    return time.monotonic() - begun


def memory(process: int) -> str:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith("VmHWM")).split(":")[1].strip()


def main(count: int) -> None:
    def say(*words: object) -> None:
        print(*words, flush=True)

    with ControlPlane() as plane:
        plane.api.create_nodes(plain(f"n{number:03}", 4) for number in range(100))
        begun = time.monotonic()
        create(plane.api, manifests(count))
        say(f"{count} pods created in {time.monotonic() - begun:.0f} s")
        begun = time.monotonic()
        scheduler = Scheduler(plane.kubeconfig(), plane.folder / "flood.log")
        try:
            say(f"ready after {time.monotonic() - begun:.1f} s, {scheduler.cpu_seconds():.1f} s of processor time")
            health = Looks(lambda: scheduler.get("/healthz"))
            lease = Looks(lambda: plane.api.get(LEASE)["spec"]["renewTime"])
            say(f"a pod that fits, meanwhile: bound after {until_bound(plane, 'early'):.1f} s")
            while scheduler.metric("tonnage_pods_passed_over") < count:
                time.sleep(0.5)
            cycles = scheduler.metric("tonnage_cycle_seconds_count")
            say(f"all looked at {time.monotonic() - begun:.1f} s after the start, in {cycles:.0f} cycles")
            say(f"a pod that fits, afterwards: bound after {until_bound(plane, 'late'):.1f} s")
            plane.api.delete(f"{pods_path()}/late")
            say(f"and while all are looked at again: bound after {until_bound(plane, 'again'):.1f} s")
            health.end()
            lease.end()
            say(f"slowest /healthz {health.slowest:.2f} s; longest time between renewals {lease.longest_pause():.1f} s")
            say(f"peak memory {memory(scheduler.process.pid)}, {scheduler.cpu_seconds():.0f} s of processor time")
            begun = time.monotonic()
            scheduler.get("/metrics")
            say(f"/metrics took {time.monotonic() - begun:.2f} s")
            begun = time.monotonic()
            found = scheduler.get("/debug/problems")
            say(f"/debug/problems took {time.monotonic() - begun:.2f} s, {len(found)} bytes")
        finally:
            scheduler.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30_000)
