"""An invented trace in the format of openb: the same two files and columns, with a few hundred lines."""

import random
from dataclasses import dataclass
from pathlib import Path

from tests.simulator.traces.files import NODES, TIMED, write

MODELS = {"P100": (2, 64_000), "T4": (4, 96_000), "V100M16": (8, 96_000), "V100M32": (8, 96_000)}
"""Cards and thousandths of a CPU on a node of each model."""
SHARES = (120, 250, 330, 470, 500, 780, 1000)
DAY = 86_400


@dataclass(frozen=True)
class InventedTrace:
    """The paths of its files and what they hold."""

    nodes: str
    pods: str
    node_count: int
    card_count: int
    pod_count: int
    demand: float
    """Cards that all pods ask for."""


def invented_trace(folder: Path, nodes: int = 24, pods: int = 300, seed: int = 1) -> InventedTrace:
    """Write a trace whose pods ask for a little more than its nodes have; the same for the same seed."""
    random_one = random.Random(seed)
    names = sorted(MODELS)
    models = [names[number % len(names)] for number in range(nodes)]
    offered = [f"node-{n:04},{MODELS[m][1]},262144,{MODELS[m][0]},{m}\n" for n, m in enumerate(models)]
    asked, demand, arrived = [], 0.0, 0
    for number in range(pods):
        arrived += random_one.randrange(600)
        cards = random_one.choice((0, 1, 1, 1, 1, 2, 4))
        share = 0 if cards == 0 else 1000 if cards > 1 else random_one.choice(SHARES)
        spec = random_one.choice(("", "", "", "V100M16|V100M32", "T4")) if cards else ""
        demand += cards * share / 1000
        left = arrived + random_one.randrange(1, 5 * DAY)
        phase = random_one.choice(("Running", "Succeeded", "Failed"))
        cpu, memory = random_one.choice((1000, 4000, 8000)), random_one.choice((2048, 16_384))
        asked.append(f"pod-{number:04},{cpu},{memory},{cards},{share},{spec},LS,{phase},{arrived},{left},{arrived}\n")
    return InventedTrace(
        write(folder, "nodes.csv", NODES + "".join(offered)),
        write(folder, "pods.csv", TIMED + "".join(asked)),
        nodes,
        sum(MODELS[model][0] for model in models),
        pods,
        demand,
    )
