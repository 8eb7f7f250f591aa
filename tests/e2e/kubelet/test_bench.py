"""The benchmark of the agent on a real kubelet: a quick run reports every figure; only `make e2e` runs it."""

import pytest

from tests.agent.nvml.fakelibrary import needs_cc
from tests.bench.command import figures

pytestmark = [pytest.mark.kubelet, pytest.mark.long, needs_cc]


def test_the_agents_benchmark_reports_every_figure() -> None:
    assert figures("bench.agent") == [
        "process start until the node's allocatable has the cards, best",
        "  median",
        "  CPU time of the agent until then, best",
        "N pods bound at once without GPUs: until all run",
        "N pods bound at once, Allocate slowed by N ms: until all run",
        "  relative to those without GPUs",
        "  first question until the last answer",
        "  of which the agent's own time, without the slowing",
        "  patches per pod",
        "  other requests",
        "new socket of a restarted kubelet until the agent is registered",
        "rival plugin leaves until the node offers the cards again",
        "XID N until the card is registered as unhealthy",
        "NVML appears until the node offers the cards",
        "answer until the lock of HAMi's scheduler is free",
        "update with a surge: kubelet hangs up until the new agent is registered",
        "memory at the start",
        "idle: CPU",
        "idle: writes to the API server per hour",
        "memory after N pods",
        "  CPU time per pod",
        "open files after N pods",
        "scrape of N containers, median",
    ]
