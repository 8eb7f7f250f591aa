"""`python -m bench.top`: what `tonnage top` costs in CPU time on a large cluster, the API server excluded.

An API server that is played has 1,000 nodes × 8 and 5,000 pods, of which nothing changes. `top` runs on a terminal of
its own: its CPU time is read when the first frame is there, and after some seconds of looking on.
"""

import asyncio
import os
import select
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from bench.report import Report, argument_parser, publish
from tests.cli.terminal import Terminal
from tests.kube.fake_server import FakeServer, fake_server
from tests.live.observing import BUILT_IN
from tests.scenario import pod
from tonnage.binder.binding import device_annotations
from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.pod import Pod
from tonnage.plugins.defaults import default_plugins
from tonnage.simulator.workloads.demo import demo_arrivals, demo_nodes

TOP = [sys.executable, "-m", "tonnage.cli.main", "top"]
CREATED = "2026-01-01T00:00:00Z"
SCREENS = (("cluster", 80, 24), ("cluster", 200, 60), ("gpus", 200, 60), ("pods", 200, 60))


class Sizes(NamedTuple):
    """How large the cluster is and how long it is looked at."""

    nodes: int
    pods: int
    waiting: int
    seconds: float


FULL = Sizes(1000, 5000, 200, 15.0)
QUICK = Sizes(5, 20, 2, 2.0)


def fill(server: FakeServer, sizes: Sizes) -> None:
    """Nodes, pods that run on them, and pods that no node has room for."""
    rng, cluster = Random(0), Cluster(default_vendors())
    for node in demo_nodes(sizes.nodes, 8, rng):
        cluster.upsert_node(node)
        server.put(node)
    arrivals = demo_arrivals(sizes.nodes, 8, rng)
    with Session(cluster, default_plugins()) as session:
        running = 0
        while running < sizes.pods - sizes.waiting:
            arrival = next(arrivals)
            cluster.upsert_pod(arrival.pod)
            decision = session.place(cluster.waiting[arrival.pod.key])
            if decision.node is None:
                cluster.remove_pod(arrival.pod.key)
                continue
            running += 1
            named = device_annotations(cluster, decision.task, decision.node, decision.grant, 0)
            server.put(_placed(arrival.pod, decision.node, named), creationTimestamp=CREATED)
    for number in range(sizes.waiting):
        server.put(pod(f"waits-{number}", 9 + number % 3), creationTimestamp=CREATED)


def _placed(pod: Pod, node: str, named: dict[str, str]) -> Pod:
    metadata = replace(pod.metadata, annotations={**pod.annotations, **named})
    return replace(pod, metadata=metadata, spec=replace(pod.spec, nodeName=node))


@contextmanager
def played(sizes: Sizes) -> Iterator[str]:
    """The kubeconfig file of an API server in a thread of its own."""
    ready, over, found = threading.Event(), threading.Event(), list[str]()

    async def serve(folder: Path) -> None:
        async with fake_server() as server:
            server.served |= BUILT_IN
            fill(server, sizes)
            found.append(server.kubeconfig(folder))
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.1)

    with tempfile.TemporaryDirectory() as folder:
        thread = threading.Thread(target=lambda: asyncio.run(serve(Path(folder))), daemon=True)
        thread.start()
        ready.wait()
        try:
            yield found[0]
        finally:
            over.set()
            thread.join()


def cpu(pid: int) -> float:
    """The CPU time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(report: Report, sizes: Sizes) -> None:
    """All figures."""
    with played(sizes) as kubeconfig:
        for view, width, height in SCREENS:
            words = (view, "--policy", "binpack", "--kubeconfig", kubeconfig)
            terminal = Terminal(*words, command=TOP, width=width, height=height)
            terminal.read(until=rf"{sizes.waiting:,} waiting")
            first, began = cpu(terminal.pid), time.monotonic()
            while time.monotonic() < began + sizes.seconds:
                if select.select([terminal.master], [], [], 0.2)[0]:
                    os.read(terminal.master, 2**16)
            idle = (cpu(terminal.pid) - first) / (time.monotonic() - began)
            terminal.press("q")
            terminal.end()
            size = f"{view}, {width} x {height}"
            report.at_most(f"top: first frame, {size}", first, "s of CPU", 2)
            report.at_most(f"top: while nothing changes, {size}", 100 * idle, "% of a core", 5)


def main() -> int:
    arguments = argument_parser("bench.top", __doc__).parse_args()
    return publish(arguments, lambda report: measure(report, QUICK if arguments.quick else FULL))


if __name__ == "__main__":
    sys.exit(main())
