"""Results of a simulation as a table for people, and as comma-separated values."""

import csv
import io
from collections.abc import Iterator, Mapping

from tonnage.cli.tables import table
from tonnage.model.duration import format_seconds
from tonnage.simulator.studies.comparison import AVERAGE
from tonnage.simulator.studies.results import CURVES, Curve, PolicyResult, Results, SeedSpread

_MOST_REASONS = 4
BY_NAME = ("failures", "waiting_time", "completion_time")
_TITLES = {
    "gpu_allocated": "GPU ALLOCATED %",
    "fragmentation_of_all": "FRAGMENTED %",
    "fragmentation_of_free": "OF FREE %",
    "pods_failed": "FAILED",
    "pods_waiting": "WAITING",
    "nodes_free": "FREE NODES",
    "gpus_free": "FREE GPUS",
    "cpu_stranded": "STRANDED CPU %",
}


def results_table(results: Results) -> Iterator[str]:
    """Lines: a table of policies by the figures that they are compared by, and why pods failed or never ran."""
    first = next(iter(results.policies.values()))
    runs = f"{len(results.seeds)} seed{'s' if len(results.seeds) > 1 else ''}"
    when = _when(results)
    yield f"{results.workload}: {results.nodes:,} nodes, {results.gpus:,} GPUs, {results.pods:,} pods, {runs}, {when}"
    yield ""
    shown = [name for name in CURVES if name in first.compared]
    header = ["POLICY", *(_TITLES[name] for name in shown)]
    times = [(title, name, part) for title, name, part in _TIMES if part in getattr(first, name)]
    rows = []
    for name, result in results.policies.items():
        figures = [_figure(result.compared[measure], measure) for measure in shown]
        waits = [format_seconds(getattr(result, measure)[part].mean) for _, measure, part in times]
        rows.append([name, *figures, *waits])
    yield from table([*header, *(title for title, _, _ in times)], rows)
    for name, result in results.policies.items():
        if result.failures:
            yield ""
            yield from _why(name, result, "never ran" if results.mode == "replay" else f"had failed {when}")


def _when(results: Results) -> str:
    """The moment of all figures of the table."""
    if results.compared_at != AVERAGE:
        return f"at {results.compared_at} % of arrived demand"
    last = max((float(at) for policy in results.policies.values() for at in policy.gpu_allocated), default=0.0)
    return f"averages over {format_seconds(last)}, until the last pod arrives"


_TIMES = (
    ("WAIT p50", "waiting_time", "50"),
    ("WAIT p95", "waiting_time", "95"),
    ("DONE p50", "completion_time", "50"),
    ("DONE p95", "completion_time", "95"),
)


def _figure(value: SeedSpread, measure: str) -> str:
    digits = 0 if measure in ("pods_failed", "pods_waiting", "nodes_free", "gpus_free") else 2
    return f"{value.mean:.{digits}f}" + (f" ±{value.sd:.{digits or 1}f}" if value.sd else "")


def _why(name: str, result: PolicyResult, what: str) -> Iterator[str]:
    yield f"{name}: pods that {what}, by the reason of most nodes"
    most = sorted(result.failures.items(), key=lambda item: -item[1].mean)
    for reason, count in most[:_MOST_REASONS]:
        yield f"  {count.mean:8.1f}  {reason}"


def results_csv(workloads: Mapping[str, Results]) -> str:
    """Every figure on a line of its own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("workload", "policy", "measure", "at", "mean", "sd"))
    for workload, results in workloads.items():
        for policy, result in results.policies.items():
            for measure in (*CURVES, *BY_NAME):
                figures: Curve = getattr(result, measure)
                averages = {AVERAGE: result.compared[measure]} if _is_averaged(results, result, measure) else {}
                for place, value in (figures | averages).items():
                    writer.writerow((workload, policy, measure, place, value.mean, value.sd))
    return text.getvalue()


def _is_averaged(results: Results, result: PolicyResult, measure: str) -> bool:
    """Whether a policy is compared by an average of the measure, which is at none of its checkpoints."""
    return results.compared_at == AVERAGE and measure in result.compared
