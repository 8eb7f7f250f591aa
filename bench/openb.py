"""`python -m bench.openb`: every policy on every openb trace that is there, as docs/results.md.

Runs are kept, so that an interrupted study goes on where it stopped.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tonnage.simulator.policies import POLICIES, policy_named
from tonnage.simulator.source import SceneSource
from tonnage.simulator.studies.cache import Cache
from tonnage.simulator.studies.results import PolicyResult
from tonnage.simulator.studies.summary import policy_result, versions
from tonnage.simulator.studies.sweep import PlannedRun, RunOptions, Sweep
from tonnage.simulator.traces.openb import Trace, read_nodes, read_pods

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "openb"
CACHE = ROOT / ".cache" / "openb"
PREFIX = "openb_pod_list_"
FIRST_SEED = 42
PAPER = ("random", "dot-product", "gpu-clustering", "gpu-packing", "best-fit", "fgd")
AUTHORS = {
    "default": (86.30, 90.62, 91.65, 91.78, 92.86, 95.23),
    "cpu050": (89.02, 93.03, 93.52, 93.46, 93.56, 95.00),
    "cpu100": (87.44, 91.73, 92.42, 92.50, 93.26, 95.21),
    "cpu200": (83.03, 87.45, 89.67, 89.98, 92.15, 94.82),
    "cpu250": (80.00, 83.57, 87.75, 88.05, 91.21, 93.20),
    "gpushare40": (84.86, 89.30, 89.76, 89.77, 91.44, 93.96),
    "gpushare60": (82.81, 86.82, 86.90, 87.15, 89.06, 91.25),
    "gpushare80": (80.62, 84.14, 84.50, 84.65, 86.66, 89.08),
    "gpushare100": (78.90, 81.98, 82.22, 82.13, 84.62, 86.64),
    "gpuspec10": (86.26, 90.17, 91.96, 92.24, 93.10, 94.66),
    "gpuspec20": (85.90, 88.29, 89.11, 89.28, 88.46, 94.66),
    "gpuspec25": (85.42, 85.44, 86.41, 86.77, 85.67, 93.91),
    "gpuspec33": (83.87, 79.82, 81.09, 82.22, 80.39, 87.84),
    "multigpu20": (86.92, 91.85, 93.34, 93.50, 93.73, 95.53),
    "multigpu30": (86.63, 93.11, 94.55, 94.70, 94.57, 96.36),
    "multigpu40": (85.38, 94.04, 95.35, 95.59, 95.10, 96.91),
    "multigpu50": (81.28, 94.73, 95.69, 96.06, 95.62, 97.09),
}
"""GPU allocation in percent at 100 % of arrived demand, mean of ten seeds, as the authors of the paper published it."""
ALLOWED = {
    "fgd": 0.3,
    "best-fit": 0.3,
    "dot-product": 0.3,
    "random": 0.6,
    "gpu-packing": 1.0,
    "gpu-clustering": 1.0,
}
"""By how many points the mean may differ before the page says so; `fgd` may be above."""

Found = dict[str, dict[str, PolicyResult]]
"""By trace and policy."""


def study(data: Path, seeds: int, processes: int) -> Found:
    """Fill the cluster of each trace with each policy and seed."""
    nodes = read_nodes(str(data / "openb_node_list_gpu_node.csv"))
    files = sorted(data.glob(f"{PREFIX}*.csv"), key=lambda file: file.stem)
    names = [file.stem.removeprefix(PREFIX) for file in files]
    sources = [SceneSource(trace=Trace(str(file), nodes, read_pods(str(file)))) for file in files]
    plan = [
        (name, policy, PlannedRun(number, policy_named(policy), seed, RunOptions()))
        for number, name in enumerate(names)
        for policy in POLICIES
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
    ]
    done = 0

    def progress(more: int) -> None:
        nonlocal done
        done += more
        print(f"\r{done} of {len(plan)} runs", end="", file=sys.stderr, flush=True)

    cache = Cache(CACHE, lambda message: print(message, file=sys.stderr))
    runs = Sweep(sources, cache, processes).run([job for _, _, job in plan], progress)
    print(file=sys.stderr)
    found: dict[str, dict[str, list[object]]] = {}
    for (name, policy, _), run in zip(plan, runs, strict=True):
        found.setdefault(name, {}).setdefault(policy, []).append(run)
    return {name: {policy: policy_result(made) for policy, made in by.items()} for name, by in found.items()}


def page(found: Found, seeds: int) -> str:
    """The results in Markdown."""
    used = ", ".join(f"{name} {version}" for name, version in versions().items() if name != "tonnage")
    last = FIRST_SEED + seeds - 1
    lines = [
        "# Results on the openb traces",
        "",
        "GPU allocation in percent of the cluster's 6,212 GPUs, when pods have arrived that ask for 100 % of them:",
        f"mean of {seeds} seeds ({FIRST_SEED} to {last}), standard deviation in brackets. The",
        "[protocol](simulate.md#fill) is that of the paper on fragmentation gradient descent (USENIX ATC 2023).",
        "",
        "```console",
        "$ make openb",
        "```",
        "",
        f"Made with {used}.",
        "",
        *_against_the_paper(found),
        "",
        *_all_policies(found),
        "",
        *_fragments(found),
    ]
    return "\n".join(lines) + "\n"


def _against_the_paper(found: Found) -> list[str]:
    lines = [
        "## Against the authors' figures",
        "",
        "Below each mean: the difference to what the authors published, in points; **bold** where it is more than",
        "this project allows itself ("
        + ", ".join(f"{name} {most}" for name, most in ALLOWED.items())
        + "; `fgd` may be",
        "above).",
        "",
        "| trace | " + " | ".join(PAPER) + " |",
        "|---|" + "---|" * len(PAPER),
    ]
    outside: list[str] = []
    for trace, by_policy in found.items():
        cells = []
        for position, policy in enumerate(PAPER):
            value = by_policy[policy].gpu_allocated["100"]
            cell = f"{value.mean:.2f} ({value.sd:.2f})"
            if trace in AUTHORS:
                difference = value.mean - AUTHORS[trace][position]
                is_outside = -difference > ALLOWED[policy] or (policy != "fgd" and difference > ALLOWED[policy])
                outside += [f"`{policy}` on {trace} ({difference:+.2f})"] if is_outside else []
                cell += f"<br>**{difference:+.2f}**" if is_outside else f"<br>{difference:+.2f}"
            cells.append(cell)
        lines.append(f"| {trace} | " + " | ".join(cells) + " |")
    lines += ["", "Outside: " + (", ".join(outside) if outside else "none") + "."]
    beaten = [
        f"`{policy}` on {trace}"
        for trace, by_policy in found.items()
        for policy, result in by_policy.items()
        if policy != "fgd" and result.gpu_allocated["100"].mean >= by_policy["fgd"].gpu_allocated["100"].mean
    ]
    return [*lines, "", "Policies that allocate as much as `fgd` or more: " + (", ".join(beaten) or "none") + "."]


def _all_policies(found: Found) -> list[str]:
    return ["## All policies", "", *_table(found, "gpu_allocated")]


def _fragments(found: Found) -> list[str]:
    title = ["## Fragmentation", "", "Free GPU that the usual pods cannot use, in percent of all GPUs, at 80 %:", ""]
    return [*title, *_table(found, "fragmentation_of_all", "80")]


def _table(found: Found, measure: str, at: str = "100") -> list[str]:
    lines = ["| trace | " + " | ".join(POLICIES) + " |", "|---|" + "---|" * len(POLICIES)]
    for trace, by_policy in found.items():
        cells = [f"{getattr(by_policy[policy], measure)[at].mean:.2f}" for policy in POLICIES]
        lines.append(f"| {trace} | " + " | ".join(cells) + " |")
    return lines


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.openb", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the traces")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "results.md")
    arguments = parser.parse_args(given)
    if not (arguments.data / "openb_node_list_gpu_node.csv").exists():
        print(f"there are no openb traces in {arguments.data}; give their folder with --data", file=sys.stderr)
        return 2
    arguments.to.write_text(page(study(arguments.data, arguments.seeds, arguments.processes), arguments.seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
