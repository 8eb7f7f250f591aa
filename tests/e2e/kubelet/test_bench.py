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
        "  patches per pod",
        "  other requests",
        "memory at the start",
        "memory after N pods",
        "  CPU time per pod",
        "open files after N pods",
        "idle: CPU",
        "idle: writes to the API server per hour",
    ]
