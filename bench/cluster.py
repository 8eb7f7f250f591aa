"""`python -m bench.cluster`: the extender on a real API server, next to kube-scheduler alone in the same run.

With `--hami PATH` the run measures HAMi's own scheduler binary too.
"""

import json
import math
import multiprocessing
import queue
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.control_planes import NAMESPACE, ControlPlanes, control_planes
from bench.hami import hami_scheduler
from bench.report import BenchmarkError, Report, argument_parser, publish
from bench.workload import bench_node, bench_pod, of_scheduler, running_pod
from tests.e2e.checker import findings
from tests.e2e.extending import SCHEDULER, Extender
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.apiwatch import Server
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import Player
from tonnage.lab.schedulers import extender_configuration
from tonnage.model.annotations import AGENT
from tonnage.model.pod import Pod

PATIENCE = 240.0
START_PATIENCE = 60.0
_TURNS = 4
_AS_FAST = 110.0
"""Percent; what is above it is slower and not only measured on a busy machine."""


class Sizes(NamedTuple):
    """The sizes of the clusters and the number of requests."""

    bound: int
    """Pods that kube-scheduler binds."""
    nodes: int
    """Nodes that they are bound to."""
    small: tuple[int, int]
    """Nodes and running pods, for /filter."""
    large: tuple[int, int]
    requests: int
    hami_requests: int
    turns: int
    """How often nodes with agents and kube-scheduler alone take turns."""


FULL = Sizes(bound=1000, nodes=100, small=(1000, 5000), large=(5000, 20_000), requests=500, hami_requests=100, turns=3)
QUICK = Sizes(bound=20, nodes=10, small=(20, 40), large=(40, 80), requests=50, hami_requests=20, turns=1)


def main() -> int:
    parser = argument_parser("bench.cluster", __doc__)
    parser.add_argument("--hami", type=Path, metavar="PATH", help="HAMi's scheduler binary, to compare with")
    parser.add_argument("--agents", action="store_true", help="only the binding to nodes with agents")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else FULL

    def measure(report: Report) -> None:
        with control_planes(arguments.quick) as planes:
            if not arguments.agents:
                binding(report, planes, sizes, arguments.hami)
            binding_to_agents(report, planes, sizes)
            if arguments.agents:
                return
            small, large = FilterBounds(0.9, 4.0, ready=3.0), FilterBounds(4.0, 10.0, memory=300.0)
            filtering(report, planes, sizes.small, sizes, small, arguments.hami)
            filtering(report, planes, sizes.large, sizes, large, None)

    return publish(arguments, measure)


# -- /filter


class FilterBounds(NamedTuple):
    """Ceilings: milliseconds of /filter, seconds until ready, MB of memory."""

    p50: float
    p99: float
    ready: float | None = None
    memory: float | None = None


def filtering(
    report: Report, planes: ControlPlanes, size: tuple[int, int], sizes: Sizes, bounds: FilterBounds, hami: Path | None
) -> None:
    """Start-up, latency of /filter and memory of the extender, and HAMi's latency."""
    nodes, pods = size
    shown = f"{nodes:,} nodes × 8 GPUs, {pods:,} running pods"
    with planes.empty() as plane:
        plane.api.create_nodes(bench_node(number) for number in range(nodes))
        plane.api.create_pods(running_pod(number, nodes) for number in range(pods))
        started = time.monotonic()
        extender = Extender(plane.kubeconfig(), plane.folder / "extender.log")
        try:
            took, name = time.monotonic() - started, f"extender start until ready, {shown}"
            report.at_most(name, took, "s", bounds.ready) if bounds.ready else report.add(name, took, "s")
            # Few places are reserved for pods that the watch does not show, so the pods exist.
            created = [_created_pod(plane, number) for number in range(sizes.requests)]
            times = _request(extender.port, nodes, created)
            report.at_most(f"/filter, {shown}, p50", statistics.median(times) * 1e3, "ms", bounds.p50)
            report.at_most(f"/filter, {shown}, p99", statistics.quantiles(times, n=100)[98] * 1e3, "ms", bounds.p99)
            if bounds.memory:
                report.at_most(f"extender memory, {shown}", _resident(extender.process.pid), "MB", bounds.memory)
        finally:
            extender.stop()
        if bounds.ready:
            _beside_agents(report, plane, nodes, created, shown)
        if hami is not None:
            with hami_scheduler(plane, hami, _node_names(nodes)) as theirs:
                times = _request(theirs.port, nodes, created[: sizes.hami_requests])
            report.add(f"HAMi: /filter, {shown}, p50", statistics.median(times) * 1e3, "ms")


def _beside_agents(report: Report, plane: ControlPlane, nodes: int, pods: Sequence[dict[str, Any]], shown: str) -> None:
    """CPU time of /filter on nodes with agents and on nodes with HAMi's plugins, by turns, the best of each."""
    best = {True: math.inf, False: math.inf}
    for has_agents in (True, False) * _TURNS:
        mark = {"metadata": {"annotations": {AGENT: "0.1.0,boot" if has_agents else None}}}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name, body=mark: plane.api.patch(f"/api/v1/nodes/{name}", body), _node_names(nodes)))
        extender = Extender(plane.kubeconfig(), plane.folder / "extender.log")
        try:
            # What a start leaves to do would count for one side more than for the other.
            _request(extender.port, nodes, pods[: len(pods) // 5])
            used = extender.cpu_seconds()
            _request(extender.port, nodes, pods)
            best[has_agents] = min(best[has_agents], extender.cpu_seconds() - used)
        finally:
            extender.stop()
    share = 100 * best[True] / best[False]
    report.at_most(f"/filter, {shown}, CPU time with agents relative to plugins", share, "%", _AS_FAST)


def _node_names(count: int) -> list[str]:
    return [f"node-{number:05d}" for number in range(count)]


def _created_pod(plane: ControlPlane, number: int) -> dict[str, Any]:
    created: dict[str, Any] = plane.api.create(pods_path(NAMESPACE), pod_manifest(_asking_pod(number)))
    return created


def _asking_pod(number: int) -> Pod:
    return of_scheduler(bench_pod(f"asked-{number}", 1, (1024, 4096, 16384)[number % 3], 10), SCHEDULER)


def _request(port: int, nodes: int, pods: Sequence[dict[str, Any]]) -> list[float]:
    """Seconds per /filter request, each for a pod of its own and all nodes; the first tenth warms up.

    A plain socket adds hardly any time of its own.
    """
    names = _node_names(nodes)
    times: list[float] = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        # Go's HTTP client does the same.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pod in pods:
            body = json.dumps({"Pod": pod, "NodeNames": names}).encode()
            head = f"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            started = time.perf_counter()
            connection.sendall(head + body)
            answer = _answer(connection)
            times.append(time.perf_counter() - started)
            if not json.loads(answer).get("NodeNames"):
                raise BenchmarkError(f"/filter names no node: {answer[:300].decode(errors='replace')}")
    return times[len(times) // 10 :]


def _answer(connection: socket.socket) -> bytes:
    """The body of one response."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    if not lengths:
        raise BenchmarkError(f"/filter gives a response without a length: {received[:300].decode(errors='replace')}")
    while len(body) < int(lengths[0]):
        body += _more(connection)
    return body


def _more(connection: socket.socket) -> bytes:
    try:
        received = connection.recv(65536)
    except OSError as error:
        raise BenchmarkError(f"/filter does not answer: {error}") from error
    if not received:
        raise BenchmarkError("/filter closed the connection without an answer")
    return received


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


# -- binding

StartExtender = Callable[[ControlPlane], AbstractContextManager[int]]
"""Starts an extender for a control plane; its value is the port."""


def binding(report: Report, planes: ControlPlanes, sizes: Sizes, hami: Path | None) -> None:
    """Pods that kube-scheduler binds per second, alone and with an extender."""
    bind = partial(_pods_per_second, planes, sizes)
    alone = bind(None)
    report.add(f"kube-scheduler alone, {sizes.bound:,} pods, {sizes.nodes:,} nodes", alone, "pods/s")
    for policy, delay in (("spread", 0.0), ("binpack", 0.0), ("binpack", 0.05)):
        # Under binpack many pods in a row go to one node, and take turns at its device plugin.
        shown = f"{policy}, device plugin takes {delay * 1000:.0f} ms"
        costs: list[float] = []
        with_us = bind(partial(_tonnage, costs, policy), delay)
        report.add(f"kube-scheduler with the extender, {shown}", with_us, "pods/s")
        name, share = f"  relative to kube-scheduler alone, {shown}", 100 * with_us / alone
        report.at_least(name, share, "%", 70) if policy == "spread" else report.add(name, share, "%")
        if policy == "spread":
            report.at_most("  writes to the API server per pod until it is bound", costs[0] / sizes.bound, "", 1.0)
            report.add("  CPU time of the extender per pod", costs[1] / sizes.bound * 1000, "ms")
    if hami is not None:
        # HAMi locks a node until the device plugin has answered, so the plugin must release locks.
        theirs = bind(partial(_hami, hami, sizes.nodes), releases_locks=True)
        report.add("kube-scheduler with HAMi's scheduler", theirs, "pods/s")


def binding_to_agents(report: Report, planes: ControlPlanes, sizes: Sizes) -> None:
    """The same on nodes with agents, where no pod waits; by turns with kube-scheduler alone, the best of each."""
    bind = partial(_pods_per_second, planes, sizes, has_agents=True)
    runs = (("spread", 0.0), ("binpack", 0.0), ("binpack", 0.05))
    alone, best = 0.0, dict.fromkeys(runs, 0.0)
    for _ in range(sizes.turns):
        alone = max(alone, bind(None))
        for policy, delay in runs:
            with_us = bind(partial(_tonnage, [], policy), delay)
            best[policy, delay] = max(best[policy, delay], with_us)
    report.add("kube-scheduler alone, best turn", alone, "pods/s")
    for (policy, delay), with_us in best.items():
        shown = f"{policy}, agent takes {delay * 1000:.0f} ms"
        report.add(f"kube-scheduler with the extender, {shown}, best turn", with_us, "pods/s")
        report.at_least(f"  relative to kube-scheduler alone, {shown}", 100 * with_us / alone, "%", 75)


@contextmanager
def _tonnage(costs: list[float], policy: str, plane: ControlPlane) -> Iterator[int]:
    """The extender; its costs are writes to the API server and seconds of CPU time."""
    before = _writes(plane)
    extender = Extender(plane.kubeconfig(), plane.folder / "extender.log", f"--node-scheduler-policy={policy}")
    used = extender.cpu_seconds()
    try:
        yield extender.port
        costs += [_writes(plane) - before, extender.cpu_seconds() - used]
    finally:
        extender.stop()


@contextmanager
def _hami(binary: Path, nodes: int, plane: ControlPlane) -> Iterator[int]:
    with hami_scheduler(plane, binary, _node_names(nodes)) as theirs:
        yield theirs.port


def _writes(plane: ControlPlane) -> float:
    """Bindings and patches of nodes, which node locks would be, that the API server has counted."""
    total = 0.0
    for line in str(plane.api.get("/metrics")).splitlines():
        if line.startswith("apiserver_request_total{"):
            is_binding = 'resource="pods"' in line and 'subresource="binding"' in line
            is_node = 'resource="nodes"' in line and 'verb="PATCH"' in line
            total += float(line.rpartition(" ")[2]) if is_binding or is_node else 0.0
    return total


def _pods_per_second(
    planes: ControlPlanes,
    sizes: Sizes,
    start: StartExtender | None,
    delay: float = 0.0,
    releases_locks: bool = False,
    has_agents: bool = False,
) -> float:
    """All pods exist before kube-scheduler starts; the time runs from the first bind to the last."""
    with planes.empty() as plane:
        plane.api.create_nodes(bench_node(number, has_agents) for number in range(sizes.nodes))
        bind_all = partial(_bind_all, plane, sizes.bound, delay, releases_locks)
        if start is None:
            return bind_all({"profiles": [{"schedulerName": SCHEDULER}]})
        with start(plane) as port:
            return bind_all(extender_configuration(port))


def _bind_all(plane: ControlPlane, count: int, delay: float, releases_locks: bool, settings: dict[str, Any]) -> float:
    # kube-scheduler alone does not know shares of cards, so its pods ask for none.
    cards = 1 if "extenders" in settings else 0
    plane.api.create_pods(_pending_pod(number, cards) for number in range(count))
    spans: Any = multiprocessing.get_context("spawn").Queue()
    server = Server(plane.server, plane.token, str(plane.authority))
    player = multiprocessing.get_context("spawn").Process(
        target=_play, args=(server, count, delay, releases_locks, spans), daemon=True
    )
    player.start()
    try:
        if _received(spans, START_PATIENCE) is None:
            raise BenchmarkError(f"the player of the kubelets has not started after {START_PATIENCE:.0f} s")
        scheduler = plane.run_scheduler(settings)
        span = _received(spans, PATIENCE)
        scheduler.stop()
        if span is None:
            pending = len(plane.api.get(pods_path(NAMESPACE), fieldSelector="spec.nodeName=")["items"])
            raise BenchmarkError(f"{pending} of {count} pods are not bound after {PATIENCE:.0f} s")
    finally:
        player.terminate()
    if cards and (wrong := findings(plane.api)):
        raise BenchmarkError("\n".join(["cards or nodes are overcommitted:", *wrong[:10]]))
    return count / span


def _received(spans: Any, within: float) -> float | None:
    try:
        span: float = spans.get(timeout=within)
    except queue.Empty:
        return None
    return span


def _play(server: Server, count: int, delay: float, releases_locks: bool, spans: Any) -> None:
    """Play the kubelets in a process of its own; sends the seconds between the first and the last bind."""
    player = Player(server, delay, quick=not releases_locks)
    spans.put(0.0)
    while len(player.bound_at) < count:
        time.sleep(0.05)
    spans.put(player.bound_at[-1] - player.bound_at[0])
    time.sleep(3600)


def _pending_pod(number: int, cards: int) -> Pod:
    return of_scheduler(bench_pod(f"waiting-{number}", cards, 4096 * cards, 5 * cards), SCHEDULER)


if __name__ == "__main__":
    sys.exit(main())
