"""Floods of a real extender with 100 nodes and 1,000 pods: it answers probes within 1 s and keeps its memory."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.addresses import ADDRESS
from tests.e2e.extending import Extender
from tests.e2e.flooding import KINDS
from tests.scenario import node, pod
from tests.waiting import PATIENCE
from tonnage.lab.control_plane import ControlPlane

SECONDS = 4.0
MEMORY_MB, HEALTH_SECONDS = 300, 1.0
TRIES = 5


@pytest.fixture(scope="module")
def extender(control_plane: ControlPlane) -> Iterator[Extender]:
    control_plane.api.create_nodes(node(f"n{number:03}", gpus=8, nvidia__com__gpu=80) for number in range(100))
    control_plane.api.create_pods(pod(f"p{number:04}", 1, memory=1000) for number in range(1000))
    kubeconfig, log = control_plane.kubeconfig(), control_plane.folder / "flooded.log"
    made = Extender(kubeconfig, log, host="0.0.0.0" if ADDRESS else "127.0.0.1")
    try:
        yield made
    finally:
        made.stop()


def peak_memory(pid: int) -> float:
    """MB that a process has held at most."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def slowest_probe(extender: Extender, kind: str) -> float:
    """Seconds that /healthz takes at most during a flood; every probe is answered."""
    host = ADDRESS or "127.0.0.1"
    command = [sys.executable, "-m", "tests.e2e.flooding", kind, host, str(extender.port), str(SECONDS)]
    flood = subprocess.Popen(command)
    slowest = 0.0
    try:
        while flood.poll() is None:
            begun = time.monotonic()
            # As the kubelet asks: not by the loopback address.
            with urllib.request.urlopen(f"http://{host}:{extender.port}/healthz", timeout=PATIENCE) as answer:
                assert answer.read() == b"ok"
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(0.05)
    finally:
        flood.kill()
        flood.wait()
    assert flood.returncode == 0
    return slowest


@pytest.mark.parametrize("kind", KINDS)
def test_probes_are_answered_and_memory_is_kept_through_a_flood(extender: Extender, kind: str) -> None:
    # On a machine that others keep busy, a probe may have to wait for a processor.
    took = [slowest_probe(extender, kind)]
    while min(took) >= HEALTH_SECONDS and len(took) < TRIES:
        took.append(slowest_probe(extender, kind))
    assert min(took) < HEALTH_SECONDS, took
    assert peak_memory(extender.process.pid) < MEMORY_MB
    assert extender.process.poll() is None
