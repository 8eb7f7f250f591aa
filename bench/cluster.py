"""`python -m bench.cluster`: the extender on a real API server, with kube-scheduler alone as the yardstick.

With `--hami PATH` HAMi's own scheduler binary is measured in the same run.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.report import Report
from bench.workload import bench_node, bench_pod, running_pod
from tests.e2e.checker import findings
from tests.e2e.extending import SCHEDULER, Extender, configuration
from tests.e2e.player import Player, Server
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports
from tonnage.model.pod import Pod

NAMESPACE = "bench"
PATIENCE = 240.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--hami", type=Path, metavar="PATH", help="HAMi's scheduler binary, to compare with")
    parser.add_argument("--quick", action="store_true", help="smaller clusters, for a first look")
    arguments = parser.parse_args()
    report = Report(quiet=arguments.output == "json")
    small, large = ((200, 1000), (500, 2000)) if arguments.quick else ((1000, 5000), (5000, 20000))
    reservations(report, 200 if arguments.quick else 1000, arguments.hami)
    answering(report, *small, p50=0.9, p99=4.0, ready=3.0, memory=None, hami=arguments.hami)
    answering(report, *large, p50=4.0, p99=10.0, ready=None, memory=300.0, hami=None)
    if arguments.output == "json":
        print(json.dumps(report.rows, indent=2))
    return 0


# -- filter


def answering(
    report: Report,
    nodes: int,
    pods: int,
    p50: float,
    p99: float,
    ready: float | None,
    memory: float | None,
    hami: Path | None,
) -> None:
    """How fast questions are answered about a cluster of that size."""
    size = f"{nodes:,} nodes × 8, {pods:,} running"
    with ControlPlane() as plane:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        plane.api.create_nodes(bench_node(number) for number in range(nodes))
        plane.api.create_pods(running_pod(number, nodes) for number in range(pods))
        started = time.monotonic()
        extender = Extender(plane.kubeconfig(), plane.folder / "extender.log")
        try:
            took = time.monotonic() - started
            name = f"from start until the first pod can be placed, {size}"
            report.at_most(name, took, "s", ready) if ready else report.add(name, took, "s")
            times = _ask(extender.port, nodes, 500)
            report.at_most(f"/filter, {size}, p50", statistics.median(times) * 1e3, "ms", p50)
            report.at_most(f"/filter, {size}, p99", statistics.quantiles(times, n=100)[98] * 1e3, "ms", p99)
            if memory:
                report.at_most(f"memory, {size}", _resident(extender.process.pid), "MB", memory)
        finally:
            extender.stop()
        if hami is not None:
            with _hami(plane, hami) as port:
                times = _ask(port, nodes, 100)
                report.add(f"HAMi: /filter, {size}, p50", statistics.median(times) * 1e3, "ms")


def _ask(port: int, nodes: int, count: int) -> list[float]:
    """Seconds per question, each about a pod of its own and all nodes; the asking itself takes hardly any."""
    names = [f"node-{number:05d}" for number in range(nodes)]
    times: list[float] = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        # As Go's clients have it.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(count):
            pod = msgspec.to_builtins(bench_pod(f"asked-{number}", 1, (1024, 4096, 16384)[number % 3], 10))
            pod["metadata"]["uid"] = f"asked-{number}"
            body = json.dumps({"Pod": pod, "NodeNames": names}).encode()
            head = f"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            started = time.perf_counter()
            connection.sendall(head + body)
            answer = _answer(connection)
            times.append(time.perf_counter() - started)
            assert json.loads(answer)["NodeNames"], answer
    return times[count // 10 :]


def _answer(connection: socket.socket) -> bytes:
    """The body of one answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    while len(body) < length:
        body += connection.recv(65536)
    return body


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


# -- placing


def reservations(report: Report, pods: int, hami: Path | None) -> None:
    """How many pods are bound per second, the same pods by kube-scheduler alone and with an extender."""
    alone = _pods_per_second(pods, None, 0.0)
    report.add(f"kube-scheduler alone, {pods:,} pods on 100 nodes", alone, "pods/s")
    for delay in (0.0, 0.05):
        shown = "a plugin that answers at once" if not delay else f"a plugin that takes {delay * 1000:.0f} ms"
        writes: list[float] = []
        with_us = _pods_per_second(pods, _tonnage(writes), delay)
        report.add(f"kube-scheduler with the extender, {shown}", with_us, "pods/s")
        share = 100 * with_us / alone
        report.at_least(f"share of kube-scheduler alone, {shown}", share, "%", 75) if not delay else report.add(
            f"share of kube-scheduler alone, {shown}", share, "%"
        )
        if not delay:
            report.at_most("writes on the placing path per pod", writes[0] / pods, "", 1.0)
    if hami is not None:
        theirs = _pods_per_second(pods, lambda plane: _hami(plane, hami), 0.0)
        report.add("kube-scheduler with HAMi's scheduler", theirs, "pods/s")


Door = Callable[[ControlPlane], Any]


def _tonnage(writes: list[float]) -> Door:
    @contextmanager
    def door(plane: ControlPlane) -> Iterator[int]:
        extender = Extender(plane.kubeconfig(), plane.folder / "extender.log")
        try:
            yield extender.port
            writes.append(_writes(plane))
        finally:
            extender.stop()

    return door


def _writes(plane: ControlPlane) -> float:
    """Bindings and changes of nodes that the API server counted: locks would be among the latter."""
    total = 0.0
    for line in str(plane.api.get("/metrics")).splitlines():
        if line.startswith("apiserver_request_total{"):
            is_binding = 'resource="pods"' in line and 'subresource="binding"' in line
            is_node = 'resource="nodes"' in line and 'verb="PATCH"' in line
            total += float(line.rpartition(" ")[2]) if is_binding or is_node else 0.0
    return total


def _pods_per_second(count: int, door: Door | None, delay: float) -> float:
    """Pods are made first, then kube-scheduler starts; from then on until the last one is bound."""
    with ControlPlane() as plane:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        plane.api.create_nodes(bench_node(number) for number in range(100))
        if door is None:
            return _bind_all(plane, count, {"profiles": [{"schedulerName": SCHEDULER}]}, delay)
        with door(plane) as port:
            return _bind_all(plane, count, configuration(port), delay)


def _bind_all(plane: ControlPlane, count: int, settings: dict[str, Any], delay: float) -> float:
    # kube-scheduler alone knows no parts of cards, so that its pods ask for none.
    cards = 1 if "extenders" in settings else 0
    plane.api.create_pods(_waiting(number, cards) for number in range(count))
    told: Any = multiprocessing.get_context("spawn").Queue()
    reached = Server(plane.server, plane.token, str(plane.authority))
    player = multiprocessing.get_context("spawn").Process(target=_play, args=(reached, count, delay, told), daemon=True)
    player.start()
    told.get(timeout=60)
    scheduler = plane.run_scheduler(settings)
    try:
        span: float = told.get(timeout=PATIENCE)
    finally:
        scheduler.stop()
        player.terminate()
    assert findings(plane.api) == [] or not cards
    return count / span


def _play(reached: Server, count: int, delay: float, told: Any) -> None:
    """Play until all pods are bound, in a process of its own; tells how many seconds lay between first and last."""
    player = Player(reached, delay, quick=True)
    told.put(0.0)
    while len(player.bound_at) < count:
        time.sleep(0.05)
    told.put(player.bound_at[-1] - player.bound_at[0])
    time.sleep(3600)


def _waiting(number: int, cards: int) -> Pod:
    pod = bench_pod(f"waiting-{number}", cards, 4096 * cards, 5 * cards)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, schedulerName=SCHEDULER))


# -- HAMi


@contextmanager
def _hami(plane: ControlPlane, binary: Path) -> Iterator[int]:
    port, metrics = free_ports(2)
    command: Sequence[str] = [
        *(str(binary), f"--http_bind=127.0.0.1:{port}", f"--metrics-bind-address=127.0.0.1:{metrics}"),
        *("--scheduler-name=hami-scheduler", "--kube-qps=1000", "--kube-burst=1000"),
    ]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    with (plane.folder / "hami.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        time.sleep(60)
        yield port
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    sys.exit(main())
