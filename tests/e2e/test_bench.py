"""Benchmarks on real Kubernetes parts: a quick run reports every figure."""

import shlex
import sys
from pathlib import Path

from tests.bench.command import figures

SIZE = "N nodes × N GPUs, N running pods"


def test_the_extenders_benchmark_reports_every_figure_and_hamis(tmp_path: Path) -> None:
    # The extender takes HAMi's flags, so it can stand in for HAMi's scheduler.
    hami = tmp_path / "hami"
    hami.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tonnage.cli.main extender "$@"\n')
    hami.chmod(0o755)
    assert figures("bench.cluster", "--hami", str(hami)) == [
        "kube-scheduler alone, N pods, N nodes",
        "kube-scheduler with the extender, spread, device plugin takes N ms",
        "  relative to kube-scheduler alone, spread, device plugin takes N ms",
        "  writes to the API server per pod until it is bound",
        "  CPU time of the extender per pod",
        "kube-scheduler with the extender, binpack, device plugin takes N ms",
        "  relative to kube-scheduler alone, binpack, device plugin takes N ms",
        "kube-scheduler with HAMi's scheduler",
        "kube-scheduler alone, best turn",
        "kube-scheduler with the extender, spread, agent takes N ms, best turn",
        "  relative to kube-scheduler alone, spread, agent takes N ms",
        "kube-scheduler with the extender, binpack, agent takes N ms, best turn",
        "  relative to kube-scheduler alone, binpack, agent takes N ms",
        f"extender start until ready, {SIZE}",
        f"/filter, {SIZE}, pN",
        f"/filter, {SIZE}, CPU time with agents relative to plugins",
        f"HAMi: /filter, {SIZE}, pN",
        f"extender memory, {SIZE}",
    ]


def test_the_schedulers_benchmark_reports_every_figure() -> None:
    singles, gangs = "N single pods, N nodes", "N gangs of N, N nodes"
    throughput = ("first bind after its start", "from its start", "from the first bind", "nodes used")

    def compared(pods: str) -> list[str]:
        schedulers = (("kube-scheduler", ()), ("tonnage", ("memory", "CPU time")))
        return [f"{pods}, {name}: {figure}" for name, more in schedulers for figure in (*throughput, *more)]

    assert figures("bench.scheduler") == [
        *compared(singles),
        f"{singles}, transport alone",
        *compared(gangs),
        "urgent gang: pending pods before it",
        "urgent gang: until bound",
        "unschedulable gang of N × N GPUs, N full nodes: until reasons on pods and PodGroup",
        "  cycles in the next N s",
        "  until bound after its nodes are free",
        "memory, N nodes, N pods",
        "idle, N nodes, N pods: CPU",
        "idle, N nodes, N pods: memory",
    ]


def test_the_benchmark_of_unschedulable_pods_reports_every_figure() -> None:
    assert figures("bench.unschedulable") == [
        "N unschedulable pods, N nodes: until created",
        "scheduler start until ready",
        "  CPU time",
        "pod that fits, during the first look: until bound",
        "scheduler start until it has looked at all pods",
        "  cycles",
        "pod that fits, after the first look: until bound",
        "pod that fits, during the next look: until bound",
        "/healthz: slowest response",
        "Lease: longest time between renewals",
        "scheduler: peak memory",
        "scheduler: CPU time",
        "/metrics: latency",
        "/metrics: size",
        "/debug/problems: latency",
        "/debug/problems: size",
    ]
