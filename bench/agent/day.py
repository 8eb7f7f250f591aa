"""A day of pods on a played kubelet and a real API server: memory after them, what idleness costs, a scrape."""

import asyncio
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.agent.sizes import CARDS, PATIENCE, SPLIT, Sizes, cpu_seconds
from bench.report import BenchmarkError, Report
from tests.agent.monitor.regionfiles import V1, Process, region_bytes, write_region
from tests.agent.nvml.fakelibrary import InventedCards, uuid
from tests.agent.played_kubelet import PlayedKubelet
from tests.e2e.kubelet.realnode import agent_flags, placed_pod, started_agent
from tonnage.lab.api import Api, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports

_MIB = 2**20
_WRITES = ('verb="PATCH"', 'verb="POST"', 'verb="PUT"', 'verb="APPLY"', 'verb="DELETE"')
_WRITTEN = ('resource="nodes"', 'resource="pods"', 'resource="events"')


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
            # Before the pods: for five minutes after them their folders are removed.
            await asyncio.sleep(min(sizes.idle, 5.0))
            used, written = cpu_seconds(process), _writes(plane.api)
            await asyncio.sleep(sizes.idle)
            report.at_most("idle: CPU", 100 * (cpu_seconds(process) - used) / sizes.idle, "% of a core", 1.0)
            hourly = (_writes(plane.api) - written) * 3600 / sizes.idle
            report.at_most("idle: writes to the API server per hour", hourly, "", 0)
            used = cpu_seconds(process)
            for first in range(0, sizes.day, sizes.at_once):
                numbers = range(first, min(first + sizes.at_once, sizes.day))
                await _come_and_go(plane.api, kubelet, pool, numbers)
                await asyncio.to_thread(_scrape, port)
            rss = process.memory_info().rss / _MIB
            report.at_most(f"memory after {sizes.day:,} pods", rss, "MB", 45.0)
            report.add("  CPU time per pod", 1000 * (cpu_seconds(process) - used) / sizes.day, "ms")
            report.at_most(f"open files after {sizes.day:,} pods", process.num_fds(), "", 32)
            full = min(sizes.day, CARDS * SPLIT)
            await _fill(plane.api, kubelet, pool, folder, full)
            scrapes = [await asyncio.to_thread(_scrape, port) for _ in range(sizes.starts)]
            report.at_most(f"scrape of {full} containers, median", 1000 * statistics.median(scrapes), "ms", 50.0)
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
    pods = await _come(api, kubelet, pool, numbers)
    loop = asyncio.get_running_loop()
    paths = [f"{pods_path()}/{pod['metadata']['name']}" for pod in pods]
    await asyncio.gather(*(loop.run_in_executor(pool, api.delete, path) for path in paths))
    for pod in pods:
        kubelet.remove(pod["metadata"]["uid"])


async def _come(api: Api, kubelet: PlayedKubelet, pool: ThreadPoolExecutor, numbers: range) -> list[dict[str, Any]]:
    """Pods with devices that the kubelet has admitted."""
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
    return pods


async def _fill(api: Api, kubelet: PlayedKubelet, pool: ThreadPoolExecutor, folder: Path, count: int) -> None:
    """Pods that run, each with a region that says what it uses."""
    containers = folder / "root/usr/local/vgpu/containers"
    for number, pod in enumerate(await _come(api, kubelet, pool, range(count))):
        used = region_bytes(V1, [uuid(number % CARDS)], processes=[Process([(0, 0, 0, 0, 7)], [50])])
        write_region(containers, f"{pod['metadata']['uid']}_c0", used)


async def _waited(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise BenchmarkError(f"the agent offers nothing after {PATIENCE:.0f} s")
        await asyncio.sleep(0.02)


def _scrape(port: int) -> float:
    """The seconds of one scrape."""
    begun = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        answer.read()
    return time.monotonic() - begun


def _writes(api: Api) -> float:
    """Writes to nodes, pods and Events that the API server has counted; nobody but the agent makes any here."""
    lines = str(api.get("/metrics")).splitlines()
    counted = [line for line in lines if line.startswith("apiserver_request_total{")]
    return sum(
        float(line.rpartition(" ")[2])
        for line in counted
        if any(verb in line for verb in _WRITES) and any(kind in line for kind in _WRITTEN)
    )
