"""Results like those of a real comparison: the sizes of the recorded cluster, figures near the published ones."""

import itertools
import math
import random
from collections.abc import Sequence

from tonnage.simulator.studies.comparison import with_comparison
from tonnage.simulator.studies.results import ClusterFrame, Curve, NodeFrame, PolicyResult, Results, SeedSpread

GPUS = 6212
FIGURES = {
    # allocated at 100 and 130 %, its deviation, fragmentation of all at 60, 80 and 100 %
    "fgd": (95.23, 95.39, 0.10, 7.96, 5.97, 4.73),
    "best-fit": (92.86, 93.08, 0.14, 9.97, 8.29, 7.05),
    "gpu-packing": (91.78, 92.00, 0.50, 11.12, 9.28, 8.13),
    "gpu-clustering": (91.65, 91.88, 0.58, 11.19, 9.36, 8.21),
    "dot-product": (90.62, 90.85, 0.18, 11.43, 10.09, 9.30),
    "random": (86.30, 87.47, 0.31, 15.45, 15.92, 13.49),
}
MORE = {
    "hami-binpack": (92.10, 92.40, 0.20, 10.6, 9.0, 7.9),
    "hami-spread": (87.20, 88.10, 0.33, 15.0, 14.9, 12.9),
    "volcano-binpack": (91.20, 91.50, 0.22, 11.3, 9.7, 8.8),
    "most-allocated": (91.90, 92.20, 0.19, 10.9, 9.2, 8.0),
    "requested-to-capacity-ratio": (91.85, 92.15, 0.21, 10.9, 9.3, 8.1),
    "kai-gpupack": (92.40, 92.60, 0.25, 10.4, 8.8, 7.6),
}
POOLS = (
    ("G2", 8, 549),
    ("T4", 2, 387),
    ("T4", 4, 17),
    ("G3", 8, 39),
    ("P100", 2, 131),
    ("P100", 1, 3),
    ("V100M32", 8, 21),
    ("V100M32", 4, 9),
    ("V100M16", 8, 8),
    ("V100M16", 4, 28),
    ("V100M16", 1, 19),
    ("A10", 1, 2),
)


def between(at: float, points: Sequence[tuple[float, float]]) -> float:
    """The straight line through points."""
    for (start, first), (end, second) in itertools.pairwise(points):
        if at <= end:
            return first + (second - first) * (at - start) / (end - start)
    return points[-1][1]


def allocated(at: float, full: float, last: float) -> float:
    """All that arrives, until it bends towards what the policy reaches."""
    reach = full if at <= 100 else between(at, ((100, full), (130, last)))
    return min(at, reach - (reach - 0.72 * full) * math.exp(-max(at - 0.72 * full, 0) / 6.5))


def curve(values: dict[int, tuple[float, float]]) -> Curve:
    return {str(at): SeedSpread(round(mean, 4), round(sd, 4)) for at, (mean, sd) in values.items()}


def picture(full: float, pools: Sequence[tuple[str, int, int]], rng: random.Random) -> ClusterFrame:
    nodes = []
    for model, cards, count in pools:
        for _ in range(count):
            shares = [
                rng.choice((0.0, 0.32, 0.47, 0.65, 0.81)) if rng.random() > full / 100 else 1.0 for _ in range(cards)
            ]
            nodes.append(NodeFrame(f"openb-node-{len(nodes):04d}", model, shares, round(rng.uniform(0.4, 1), 3)))
    return ClusterFrame("100", nodes)


def fill_policy(figures: tuple[float, ...], pools: Sequence[tuple[str, int, int]], rng: random.Random) -> PolicyResult:
    full, last, sd, *fragments = figures
    at = range(131)
    gpu = {x: (allocated(x, full, last), sd * min(1, max(0, x - 60) / 30)) for x in at}
    points = ((0, 4.0), (60, fragments[0]), (80, fragments[1]), (100, fragments[2]), (130, fragments[2] * 0.95))
    whole = {x: (between(x, points), 0.1) for x in at}
    failed = {x: ((x - gpu[x][0]) * 83, 6.0 if x > 70 else 0.0) for x in at}
    reasons = {"CardInsufficientMemory": 0.62, "NodeInsufficientDevice": 0.22, "Insufficient cpu": 0.16}
    return PolicyResult(
        gpu_allocated=curve(gpu),
        fragmentation_of_all=curve(whole),
        fragmentation_of_free=curve({x: (min(100.0, 100 * whole[x][0] / max(100 - gpu[x][0], 1)), 0.5) for x in at}),
        pods_failed=curve(failed),
        nodes_free=curve({x: (max(0.0, 1213 * (1 - x / (full - 8))), 2.0) for x in at}),
        gpus_free=curve({x: (max(0.0, GPUS * (1 - x / full)), 5.0) for x in at}),
        cpu_stranded=curve({x: (0.002 * x * x * (100 - full) / 10, 0.2) for x in at}),
        failures={reason: SeedSpread(round(part * failed[130][0]), 8.0) for reason, part in reasons.items()},
        picture=picture(full, pools, rng),
    )


def fill_results(more: bool = False, seeds: int = 10, **changed: object) -> Results:
    """A fill of the recorded cluster, by six policies or by twelve."""
    rng = random.Random(7)
    figures = FIGURES | (MORE if more else {})
    given: dict[str, object] = {
        "policies": {name: fill_policy(values, POOLS, rng) for name, values in figures.items()},
        "mode": "fill",
        "workload": "openb_pod_list_default.csv on openb_node_list_gpu_node.csv",
        "command": "tonnage simulate --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv "
        + " ".join(f"--policy {name}" for name in figures)
        + f" --seeds {seeds} --html report.html",
        "versions": {"tonnage": "0.1.0", "Python": "3.11.7", "NumPy": "2.4.6"},
        "seeds": list(range(42, 42 + seeds)),
        "nodes": 1213,
        "gpus": GPUS,
        "pods": 10_731,
        "bound": {
            str(x): min(float(x), between(x, ((0, 0), (95, 95), (100, 97.2), (110, 98.8), (130, 100))))
            for x in range(131)
        },
    }
    return with_comparison(Results(**(given | changed)))  # type: ignore[arg-type]


def replay_results() -> Results:
    """Two days of an invented workload on a small cluster."""
    rng = random.Random(3)
    hours = range(0, 2 * 86400 + 1, 1800)
    policies = {}
    for name, level in (("fgd", 88.0), ("spread", 81.0)):
        wave = {at: level * min(1, at / 9000) + 5 * math.sin(at / 7000) * min(1, at / 9000) for at in hours}
        policies[name] = PolicyResult(
            gpu_allocated=curve({at: (value, 0.8) for at, value in wave.items()}),
            fragmentation_of_all=curve({at: ((100 - value) * 0.4, 0.5) for at, value in wave.items()}),
            pods_waiting=curve({at: (max(0.0, 40 - (95 - level) * 3 + 30 * math.sin(at / 7000)), 3.0) for at in hours}),
            waiting_time={
                "p50": SeedSpread(0.0),
                "p95": SeedSpread(60 * (100 - level), 40.0),
                "max": SeedSpread(9000.0, 300.0),
            },
            completion_time={
                "p50": SeedSpread(2400.0, 10),
                "p95": SeedSpread(9000.0 + level, 100),
                "max": SeedSpread(90000.0, 9),
            },
            failures={"CardInsufficientMemory": SeedSpread(3.5, 1.0)},
            picture=ClusterFrame("86400", picture(level, (("NVIDIA H100", 8, 12), ("NVIDIA A100", 4, 9)), rng).nodes),
        )
    results = Results(
        policies=policies,
        mode="replay",
        workload="an invented week",
        command="tonnage simulate -w week.yaml --policy fgd --policy spread --seeds 5",
        versions={"tonnage": "0.1.0"},
        seeds=[1, 2, 3, 4, 5],
        nodes=21,
        gpus=132,
        pods=4211,
    )
    return with_comparison(results)
