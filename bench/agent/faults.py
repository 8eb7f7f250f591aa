"""How long the agent takes to set things right after a fault, on a real kubelet: the median of a few times each."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from bench.agent.sizes import CARDS, SPLIT, Sizes, waited
from bench.report import Report
from tests.agent.nvml.fakelibrary import library
from tests.e2e.kubelet.realnode import RESOURCE, Agent, GpuNode, container
from tests.e2e.kubelet.rival import rival

LOCK = "hami.io/mutex.lock"
_REGISTERED = f"registered {RESOURCE}"
_HUNG_UP = "the kubelet hung up"
_ALL = CARDS * SPLIT


def after_faults(report: Report, node: GpuNode, sizes: Sizes) -> None:
    """The limits that users are promised."""
    figures: list[tuple[str, Callable[[GpuNode], float], float]] = [
        ("new socket of a restarted kubelet until the agent is registered", _kubelet_restarted, 1.0),
        ("rival plugin leaves until the node offers the cards again", _rival_left, 2.0),
        ("XID 79 until the card is registered as unhealthy", _struck, 1.0),
        ("NVML appears until the node offers the cards", _library_appeared, 5.0),
        ("answer until the lock of HAMi's scheduler is free", _lock_freed, 0.1),
        ("update with a surge: kubelet hangs up until the new agent is registered", _replaced, 1.0),
    ]
    for name, measured, limit in figures:
        report.at_most(name, statistics.median(measured(node) for _ in range(sizes.rounds)), "s", limit)


def _kubelet_restarted(node: GpuNode) -> float:
    with node.agent() as agent:
        node.kubelet.stop_kubelet()
        node.kubelet.start_kubelet()
        waited(lambda: len(_times(agent, _REGISTERED)) == 2, "it does not register again")
        node.until_offered(_ALL)
        return _times(agent, _REGISTERED)[1] - (node.kubelet.plugins / "kubelet.sock").stat().st_ctime


def _rival_left(node: GpuNode) -> float:
    with node.agent():
        with rival(node.kubelet.plugins, RESOURCE, 3):
            node.until_offered(3)
        return waited(lambda: node.offered() == _ALL, "the cards are not offered again")


def _struck(node: GpuNode) -> float:
    with node.agent():
        waited(lambda: len(node.registered()) == CARDS, "the cards are not registered")
        node.cards.strike(3, 79)
        return waited(lambda: not all(card.healthy for card in node.registered()), "the card stays healthy")


def _library_appeared(node: GpuNode) -> float:
    with tempfile.TemporaryDirectory() as folder:
        later = Path(folder) / library().name
        agent = node.start_agent("--nvml-library", str(later))
        try:
            waited(lambda: "NVML cannot be opened" in agent.log(), "the agent does not look for the library")
            made = later.with_name("copied")
            made.write_bytes(library().read_bytes())
            made.rename(later)
            return waited(lambda: node.offered() == _ALL, "the cards are not offered")
        finally:
            agent.end()
            node.until_offered(0)


def _lock_freed(node: GpuNode) -> float:
    path = f"/api/v1/nodes/{node.kubelet.name}"
    with node.agent() as agent:
        node.api.patch(path, {"metadata": {"annotations": {LOCK: "2026-01-01T00:00:00Z,default,locked"}}})
        node.bind("locked", container("main", [(0, 100, 1)]))
        waited(lambda: LOCK not in node.annotations(), "the lock stays")
        freed = time.time()
        answered = agent.answers("given")[-1][0]
        node.clear()
    return freed - answered


def _replaced(node: GpuNode) -> float:
    old = node.start_agent()
    node.until_offered(_ALL, old)
    with node.agent() as new:
        waited(lambda: _times(new, _REGISTERED), "the new agent does not register")
        old.end()
        waited(lambda: len(_times(new, _REGISTERED)) == 2, "the new agent does not register again")
        node.until_offered(_ALL)
        return _times(new, _REGISTERED)[1] - _times(new, _HUNG_UP)[0]


def _times(agent: Agent, words: str) -> list[float]:
    """When the agent has logged something, in unix seconds."""
    lines = [json.loads(line) for line in agent.log().splitlines() if words in line and line.endswith("}")]
    return [datetime.fromisoformat(line["time"]).timestamp() for line in lines]
