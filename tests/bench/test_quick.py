"""Benchmarks without Kubernetes: a quick run reports every figure."""

from bench.openb import ORIGIN, PAPER
from tests.bench.command import benchmark, figures
from tests.paths import ROOT
from tonnage.simulator.policies import POLICIES

SIZE = "N nodes × N GPUs, N running pods"


def test_the_engines_benchmark_reports_every_figure() -> None:
    assert figures("bench") == [
        "yardstick: one NumPy addition of N numbers",
        f"placements, {SIZE}, fastest",
        f"placements, {SIZE}, mean",
        "speed-up over a scheduler that loops over objects, mean",
        "reading a pod's requests into a task",
        "placements with binpack, noderesourcesfit and nodeorder, fastest",
        "placements with expectedfill, mean",
        "first decision for a pod class: a score per node, N nodes",
        f"placement with pod anti-affinity, {SIZE}, fastest",
        "slowdown from N to N running pods, N nodes",
        "first decision for a pod class, N nodes × N GPUs",
        "scaling: placement, N nodes × N GPUs, N running pods per node",
        f"peak memory, {SIZE}",
        "start-up: `tonnage --help` relative to `import click`",
        "fair shares: division among N queues, N resources",
        "fair shares: charging a placement and reordering its queue",
        "fair shares: reclaim check of N victims, N queues",
        "recorder: metrics of one decision",
        "recorder: placed pod, metrics and Event",
        "recorder: bound pod, metrics, Event and log line",
        "recorder: unschedulable pod, N nodes",
        "recorder: log line",
        f"scrape of /metrics, {SIZE}, gzip, median",
        "  longest block of the event loop",
        "scaling: simulator fill, N nodes × N GPUs, binpack",
        "scaling: simulator fill, N nodes × N GPUs, fgd",
        "scaling: simulator fill, N nodes × N GPUs, expectedfill",
        "simulator replay with departures, N nodes × N GPUs, binpack",
        "allocate: N single-pod jobs, N queues, N nodes × N GPUs",
        "allocate: N gangs of N pods, N nodes × N GPUs",
        "scaling: allocate N jobs, N nodes × N GPUs, per job",
        "allocate: N single-pod jobs, N nodes × N GPUs",
        "consolidation: N jobs, N nodes × N GPUs, a job of N",
        "unschedulable gang of N × N GPUs, over its quota, N full nodes",
        "unschedulable gang of N × N GPUs, over the cluster's size, N full nodes",
        "scaling: reclaim half of N full nodes × N GPUs, per victim",
        "reclaim: gang of N × N GPUs, N full nodes",
        "requeue after a freed card, N pending pods of N pod classes, N nodes",
        "  longest pass",
        "  pass without changes",
        "explain: why a pod waits, N nodes × N GPUs, N pods, HAMi's policies",
        "explain: what would help, N nodes × N GPUs, N pods, HAMi's policies",
        "explain: why a pod waits, N nodes × N GPUs, N pods, KAI's plugins, all actions",
        "explain: what would help, N nodes × N GPUs, N pods, KAI's plugins, all actions",
        "yardstick again",
    ]


def test_the_dashboard_is_measured_in_bytes_and_in_cpu() -> None:
    reported = figures("bench.dashboard")
    assert "style sheet and script, compressed" in reported
    assert "CPU per second with N pages open, churn included" in reported


def test_the_study_of_openb_gives_a_figure_for_every_policy_on_every_pod_list() -> None:
    page = benchmark("bench.openb")
    for heading in (
        "# Results on an invented trace",
        "## Against the authors' figures",
        "## Expected fill beside fgd",
        "## All policies",
    ):
        assert f"{heading}\n" in page
    for pods in ("cpu200", "default"):
        rows = [line.split(" | ") for line in page.splitlines() if line.startswith(f"| {pods} |")]
        assert [len(row) - 1 for row in rows] == [len(PAPER), len(POLICIES), len(POLICIES)]
        assert all("<br>" in cell for cell in rows[0][1:])


def test_the_page_of_results_says_where_the_trace_is_from() -> None:
    assert ORIGIN in (ROOT / "docs/results.md").read_text()


def test_the_plans_that_move_pods_are_compared_with_other_ways() -> None:
    lines = benchmark("bench.defrag").splitlines()
    assert [line.split("  ")[0] for line in lines if "pods moved" in line and not line.startswith(" ")] == [
        "emptiest node first",
        "random moves",
        "KAI's consolidation",
        "the plan without a limit",
    ]
    assert any(line.endswith("at least as many as all others") for line in lines)
