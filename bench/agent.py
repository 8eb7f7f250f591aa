"""`python -m bench.agent`: the agent on a real kubelet and a real API server: start, 40 pods at once, memory, idleness.

It needs what the tests on a real kubelet need: root, containerd, runc and a C compiler.
"""

import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.report import BenchmarkError, Report, argument_parser, publish
from tests.agent.nvml.fakelibrary import InventedCards, uuid
from tests.agent.played_kubelet import PlayedKubelet
from tests.e2e.kubelet.realnode import Agent, GpuNode, agent_flags, container, placed_pod, started_agent
from tonnage.lab import kubelet_node
from tonnage.lab.api import Api, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.kubelet_node import KubeletNode
from tonnage.lab.program import free_ports

PATIENCE = 240.0
CARDS, SPLIT = 8, 10
SLOWED = 0.05
"""Seconds that every answer of Allocate takes longer."""
_MIB = 2**20
_WRITES = ('verb="PATCH"', 'verb="POST"', 'verb="PUT"', 'verb="APPLY"', 'verb="DELETE"')
_WRITTEN = ('resource="nodes"', 'resource="pods"', 'resource="events"')


class Sizes(NamedTuple):
    """How much is measured."""

    starts: int
    at_once: int
    """Pods that are bound at once."""
    rounds: int
    day: int
    """Pods that come and go before memory is looked at."""
    idle: float
    """Seconds."""


FULL = Sizes(starts=5, at_once=40, rounds=3, day=10_000, idle=90.0)
QUICK = Sizes(starts=1, at_once=3, rounds=1, day=8, idle=1.0)


def main() -> int:
    arguments = argument_parser("bench.agent", __doc__).parse_args()
    sizes = QUICK if arguments.quick else FULL

    def measure(report: Report) -> None:
        missing = kubelet_node.missing() or (None if shutil.which("cc") else "there is no C compiler for a fake NVML")
        if missing:
            raise BenchmarkError(missing)
        with ControlPlane() as plane:
            with KubeletNode(plane) as node:
                on_a_kubelet(report, GpuNode(plane, node), sizes)
            asyncio.run(for_a_day(report, plane, sizes))

    return publish(arguments, measure)


def waited(is_so: Callable[[], object], what: str) -> float:
    """The seconds until something is so."""
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() > begun + PATIENCE:
            raise BenchmarkError(f"{what} after {PATIENCE:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - begun


# -- on a real kubelet


def on_a_kubelet(report: Report, node: GpuNode, sizes: Sizes) -> None:
    """Start until allocatable, and pods that are bound at once next to the same pods without GPUs."""
    starts, used = [], []
    for _ in range(sizes.starts):
        begun = time.monotonic()
        agent = node.start_agent()
        waited(lambda: node.offered() == CARDS * SPLIT, "the node does not offer the cards")
        starts.append(time.monotonic() - begun)
        used.append(_cpu(psutil.Process(agent.process.pid)))
        agent.end()
        waited(lambda: node.offered() == 0, "the node still offers the cards")
    report.at_most("process start until the node's allocatable has the cards, best", min(starts), "s", 2.0)
    report.add("  median", statistics.median(starts), "s")
    report.add("  CPU time of the agent until then, best", min(used), "s")
    plain, shared, answered = [], [], []
    with node.agent() as agent:
        agent.slow(SLOWED)
        for _ in range(sizes.rounds):
            plain.append(_until_running(node, sizes.at_once, 0))
            before = len(agent.requests())
            shared.append(_until_running(node, sizes.at_once, 1, agent))
            answered.append(agent.answers("given")[-1][0] - agent.answers("asked")[-sizes.at_once][0])
            asked = [line.split(" ")[0] for line in agent.requests()[before:]]
    shown = f"{sizes.at_once} pods bound at once"
    slowed = f"Allocate slowed by {SLOWED * 1000:.0f} ms"
    report.add(f"{shown} without GPUs: until all run", min(plain), "s")
    report.add(f"{shown}, {slowed}: until all run", min(shared), "s")
    report.at_most("  relative to those without GPUs", min(shared) / min(plain), "", 1.3)
    report.at_most("  first question until the last answer", min(answered), "s", 4.0)
    report.at_most("  patches per pod", asked.count("PATCH") / sizes.at_once, "", 1.0)
    report.at_most("  other requests", len(asked) - asked.count("PATCH"), "", 0)


def _until_running(node: GpuNode, count: int, cards: int, agent: Agent | None = None) -> float:
    """The seconds from the first pod's creation until all run and, with an agent, have been told of; then they go."""

    def one(number: int) -> None:
        node.bind(f"p{number}", container("main", [(number % CARDS, 100 + number, 1)] * cards))

    begun = time.monotonic()
    node.bind_at_once([lambda number=number: one(number) for number in range(count)])  # type: ignore[misc]
    waited(lambda: _phases(node) == ["Running"] * count, "not all pods run")
    took = time.monotonic() - begun
    if agent is not None:
        waited(lambda: all(node.turn(f"p{number}") == "success" for number in range(count)), "turns are not closed")
    node.clear()
    return took


def _phases(node: GpuNode) -> list[str]:
    return [str(one["status"]["phase"]) for one in node.pods().values()]


# -- a day's pods


async def for_a_day(report: Report, plane: ControlPlane, sizes: Sizes) -> None:
    """Memory after many pods, and what an idle agent costs. The kubelet is played: a real one takes days for them."""
    with tempfile.TemporaryDirectory(prefix="agent-") as made, ThreadPoolExecutor(8) as pool:
        folder = Path(made)
        plane.api.create("/api/v1/nodes", {"metadata": {"name": "played"}})
        kubelet = PlayedKubelet(folder)
        await kubelet.start()
        with _agent(plane, folder) as (process, port):
            await _waited(lambda: len(kubelet.devices) == CARDS * SPLIT)
            report.add("memory at the start", process.memory_info().rss / _MIB, "MB")
            used = _cpu(process)
            for first in range(0, sizes.day, sizes.at_once):
                numbers = range(first, min(first + sizes.at_once, sizes.day))
                await _come_and_go(plane.api, kubelet, pool, numbers)
                await asyncio.to_thread(_scrape, port)
            rss = process.memory_info().rss / _MIB
            report.at_most(f"memory after {sizes.day:,} pods", rss, "MB", 45.0)
            report.add("  CPU time per pod", 1000 * (_cpu(process) - used) / sizes.day, "ms")
            report.at_most(f"open files after {sizes.day:,} pods", process.num_fds(), "", 32)
            await asyncio.sleep(min(sizes.idle, 5.0))
            used, written = _cpu(process), _writes(plane.api)
            await asyncio.sleep(sizes.idle)
            report.at_most("idle: CPU", 100 * (_cpu(process) - used) / sizes.idle, "% of a core", 1.0)
            hourly = (_writes(plane.api) - written) * 3600 / sizes.idle
            report.at_most("idle: writes to the API server per hour", hourly, "", 0)
        await kubelet.stop()


@contextmanager
def _agent(plane: ControlPlane, folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    """The command itself, on invented cards; with the port of its metrics."""
    (port,) = free_ports(1)
    library = folder / "root/usr/local/vgpu/libvgpu.so.1"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"a library")
    flags = agent_flags("played", plane.kubeconfig(), folder / "device-plugins", folder / "pod-resources.sock")
    flags |= {"host-root": folder / "root", "metrics-bind-address": f"127.0.0.1:{port}"}
    cards = InventedCards(folder / "cards", CARDS)
    with (folder / "agent.log").open("wb") as log:
        running = started_agent("tonnage.cli.main", flags, cards, log)
    try:
        yield psutil.Process(running.pid), port
    finally:
        running.terminate()
        try:
            running.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            running.kill()
            raise BenchmarkError(f"the agent does not end:\n{(folder / 'agent.log').read_text()[-2000:]}") from None


async def _come_and_go(api: Api, kubelet: PlayedKubelet, pool: ThreadPoolExecutor, numbers: range) -> None:
    loop = asyncio.get_running_loop()

    def create(number: int) -> dict[str, Any]:
        card = [(uuid(number % CARDS), 100, 1)]
        pod: dict[str, Any] = api.create(pods_path(), placed_pod(f"d{number}", "played", [card]))
        return pod

    pods = await asyncio.gather(*(loop.run_in_executor(pool, create, number) for number in numbers))
    for pod in pods:
        answer = (await kubelet.admit(pod))["c0"]
        if answer.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] != "100m":
            raise BenchmarkError(f"{pod['metadata']['name']} gets what was not decided: {answer.envs}")
    paths = [f"{pods_path()}/{pod['metadata']['name']}" for pod in pods]
    await asyncio.gather(*(loop.run_in_executor(pool, api.delete, path) for path in paths))
    for pod in pods:
        kubelet.remove(pod["metadata"]["uid"])


async def _waited(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise BenchmarkError(f"the agent offers nothing after {PATIENCE:.0f} s")
        await asyncio.sleep(0.02)


def _scrape(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        answer.read()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _writes(api: Api) -> float:
    """Writes to nodes, pods and Events that the API server has counted; nobody but the agent makes any here."""
    lines = str(api.get("/metrics")).splitlines()
    counted = [line for line in lines if line.startswith("apiserver_request_total{")]
    return sum(
        float(line.rpartition(" ")[2])
        for line in counted
        if any(verb in line for verb in _WRITES) and any(kind in line for kind in _WRITTEN)
    )


if __name__ == "__main__":
    sys.exit(main())
