"""`python -m bench.openb`: every policy on every pod list of the openb trace in a folder, written to docs/results.md.

The trace is in the GitHub repository alibaba/clusterdata, folder cluster-trace-gpu-v2023/csv. The cache keeps finished
runs, so an interrupted study continues where it stopped. With `--quick` two small invented pod lists stand in for
openb's and the page goes to standard output.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from bench import openb_robustness
from bench.openb_robustness import Measurement
from tonnage.simulator.policies import POLICIES, policy_named
from tonnage.simulator.run import Run
from tonnage.simulator.source import SceneSource
from tonnage.simulator.studies.cache import Cache, code_digest
from tonnage.simulator.studies.fillbound import fill_bound
from tonnage.simulator.studies.results import PolicyResult
from tonnage.simulator.studies.summary import policy_result, versions
from tonnage.simulator.studies.sweep import PlannedRun, RunOptions, Sweep
from tonnage.simulator.traces.openb import Trace, read_nodes, read_pods

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "openb"
CACHE = ROOT / ".cache" / "openb"
NODES = "openb_node_list_gpu_node.csv"
PREFIX = "openb_pod_list_"
FIRST_SEED = 42
ORIGIN = """\
openb is one trace of a production GPU cluster, published with the paper on fragmentation gradient descent (USENIX ATC
2023) in the GitHub repository `alibaba/clusterdata`, under `cluster-trace-gpu-v2023/csv`. It has one list of nodes with
GPUs and one recorded list of pods, `default`. The other pod lists are the authors' variants of it: drawn from it with
other numbers of pods without GPUs (`cpu…`), of pods that share GPUs (`gpushare…`) or of pods of several GPUs
(`multigpu…`), or with required GPU models added (`gpuspec…`)."""
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
"""Points by which a mean may differ from the authors' before the page marks it; `fgd` may be above."""

CHOSEN_ON = ("default", "cpu200", "gpushare40", "multigpu20", "gpuspec25")
"""The pod lists on which the constants of `expectedfill` were chosen."""
OWN, PEERS = "expectedfill", ("fgd", "best-fit")
AT = ("90", "95", "100", "110", "130")

Found = dict[str, dict[str, PolicyResult]]
"""By pod list and policy."""


class Study(NamedTuple):
    """The results of all policies on all pod lists."""

    trace: str
    """The page's title names it."""
    origin: str
    """A paragraph about where it is from, and what its pod lists are."""
    found: Found
    seeds: int
    gpus: int
    bounds: dict[str, float]
    """By pod list, what no policy can exceed at 100 %."""
    others: Sequence[Measurement]
    """Runs with other mixes, with departures and with gangs."""


def study(data: Path, kept: Path, seeds: int, processes: int, others: int) -> Study:
    """Fill the cluster with each pod list, policy and seed; `kept` is the cache's folder."""
    nodes = read_nodes(str(data / NODES))
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

    cache = Cache(kept, lambda message: print(message, file=sys.stderr))
    runs = Sweep(sources, cache, processes).run([job for _, _, job in plan], progress)
    print(file=sys.stderr)
    made: dict[str, dict[str, list[Run]]] = {}
    for (name, policy, _), run in zip(plan, runs, strict=True):
        made.setdefault(name, {}).setdefault(policy, []).append(run)
    found = {name: {policy: policy_result(runs) for policy, runs in by.items()} for name, by in made.items()}
    bounds = {name: bound_of(source) for name, source in zip(names, sources, strict=True)}
    measured = kept / f"robustness-{code_digest()[:16]}.jsonl"
    chosen = [(name, file) for name, file in zip(names, files, strict=True) if name in openb_robustness.POD_LISTS]
    openb_robustness.study(data / NODES, chosen, measured, others, lambda message: print(message, file=sys.stderr))
    gpus = sum(node.gpus for node in nodes)
    return Study("the openb trace", ORIGIN, found, seeds, gpus, bounds, openb_robustness.read(measured))


def bound_of(source: SceneSource) -> float:
    """What no policy can exceed at 100 % of arrived demand, for the first seed."""
    return fill_bound(source.scene(), [FIRST_SEED], 100)["100"]


def page(study: Study) -> str:
    """The results in Markdown."""
    found, seeds = study.found, study.seeds
    used = ", ".join(f"{name} {version}" for name, version in versions().items() if name != "tonnage")
    last = FIRST_SEED + seeds - 1
    lines = [
        f"# Results on {study.trace}",
        "",
        *([study.origin, ""] if study.origin else []),
        f"GPU allocation in percent of the cluster's {study.gpus:,} GPUs, once the arrived pods request 100 % of them:",
        f"mean of {seeds} seeds ({FIRST_SEED} to {last}), standard deviation in brackets. The",
        "[protocol](simulate.md#fill) is the paper's.",
        "",
        "```console",
        '$ make openb ARGS="--data FOLDER"',
        "```",
        "",
        f"Made with {used}.",
        "",
        *_against_the_paper(found),
        "",
        *expected_fill(found, study.bounds, seeds),
        "",
        *openb_robustness.page(study.others),
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
        "Below each mean is its difference to the authors' published mean, in points, in **bold** where it exceeds the",
        "tolerance: " + ", ".join(f"{name} {most}" for name, most in ALLOWED.items()) + ".",
        "`fgd` may be above.",
        "",
        "| pod list | " + " | ".join(PAPER) + " |",
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


def expected_fill(found: Found, bounds: Mapping[str, float], seeds: int) -> list[str]:
    """`expectedfill` beside the best published policies and the bound."""
    names = (OWN, *PEERS)
    lines = [
        f"## Expected fill beside {PEERS[0]}",
        "",
        f"GPU allocation in percent at {' / '.join(AT)} % of arrived demand, mean of the seeds",
        f"{FIRST_SEED} to {FIRST_SEED + seeds - 1}; what [`{OWN}`](expectedfill.md) allocates more than",
        f"`{PEERS[0]}` at 100 %, in points; and the [upper",
        "bound](report.md#the-upper-bound) at 100 %, for the first seed. The constants were chosen on the pod lists",
        "with a star; the others had not been looked at.",
        "",
        "| pod list | " + " | ".join(names) + " | gain | bound |",
        "|---|" + "---|" * (len(names) + 2),
    ]
    gains: dict[str, float] = {}
    for trace, by_policy in found.items():
        curves = {name: by_policy[name].gpu_allocated for name in names}
        gains[trace] = curves[OWN]["100"].mean - curves[PEERS[0]]["100"].mean
        cells = [" / ".join(f"{curves[name][at].mean:.2f}" for at in AT) for name in names]
        star = "*" if trace in CHOSEN_ON else ""
        lines.append(f"| {trace}{star} | " + " | ".join(cells) + f" | {gains[trace]:+.2f} | {bounds[trace]:.2f} |")
    unseen = [gain for trace, gain in gains.items() if trace not in CHOSEN_ON]
    mean = f"Mean gain at 100 %: {fmean(gains.values()):+.2f} points"
    lines += ["", mean + (f", on the pod lists without a star {fmean(unseen):+.2f}." if unseen else ".")]
    worst = [
        (by_policy[OWN].gpu_allocated[at].mean - by_policy[PEERS[0]].gpu_allocated[at].mean, trace, at)
        for trace, by_policy in found.items()
        for at in AT
    ]
    least, trace, at = min(worst)
    return [*lines, f"The least of all differences is {least:+.2f} points, on {trace} at {at} %."]


def _all_policies(found: Found) -> list[str]:
    return ["## All policies", "", *_table(found, "gpu_allocated")]


def _fragments(found: Found) -> list[str]:
    title = ["## Fragmentation", "", "Free GPU that the typical pods cannot use, in percent of all GPUs, at 80 %:", ""]
    return [*title, *_table(found, "fragmentation_of_all", "80")]


def _table(found: Found, measure: str, at: str = "100") -> list[str]:
    lines = ["| pod list | " + " | ".join(POLICIES) + " |", "|---|" + "---|" * len(POLICIES)]
    for trace, by_policy in found.items():
        cells = [f"{getattr(by_policy[policy], measure)[at].mean:.2f}" for policy in POLICIES]
        lines.append(f"| {trace} | " + " | ".join(cells) + " |")
    return lines


def invent(folder: Path, nodes: int = 12, pods: int = 60) -> None:
    """A small trace in openb's format, with two pod lists under names of openb's."""
    draw = random.Random(1)
    lines = ["sn,cpu_milli,memory_mib,gpu,model"]
    lines += [f"node-{number:02},96000,393216,{(2, 4, 8)[number % 3]},T4" for number in range(nodes)]
    (folder / NODES).write_text("\n".join(lines) + "\n")
    for trace in ("default", "cpu200"):
        lines = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli"]
        for number in range(pods):
            gpus, milli = draw.choice([(1, 1000), (1, 500), (1, 250), (2, 1000), (0, 0)])
            lines.append(f"pod-{number:03},{draw.randrange(1, 9) * 1000},{draw.randrange(1, 17) * 1024},{gpus},{milli}")
        (folder / f"{PREFIX}{trace}.csv").write_text("\n".join(lines) + "\n")


def quick_study(processes: int) -> Study:
    """A study of an invented trace with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="tonnage-openb-") as scratch:
        folder = Path(scratch)
        invent(folder)
        return study(folder, folder / "cache", 2, processes, 1)._replace(trace="an invented trace", origin="")


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.openb", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the trace's CSV files")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--robustness", type=int, default=3, metavar="SEEDS", help="runs of each further case")
    parser.add_argument("--quick", action="store_true", help="a small invented trace, to see that the study works")
    arguments = parser.parse_args(given)
    if arguments.quick:
        print(page(quick_study(arguments.processes)), end="")
        return 0
    if not (arguments.data / NODES).exists():
        told = "give the folder of its CSV files with --data (GitHub: alibaba/clusterdata, cluster-trace-gpu-v2023/csv)"
        print(f"the openb trace is not in {arguments.data}; {told}", file=sys.stderr)
        return 2
    found = study(arguments.data, CACHE, arguments.seeds, arguments.processes, arguments.robustness)
    arguments.to.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
