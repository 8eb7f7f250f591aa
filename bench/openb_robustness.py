"""What `expectedfill` and `fgd` do when the mix is learned, wrong or drifting, when pods leave, and with gangs.

The cluster is every eighth node of the openb trace, and the pods are those of a pod list. Finished measurements are
kept, one per line, so an interrupted study continues where it stopped.
"""

import heapq
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec
import yaml

from tonnage.cluster.task import Task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.plugins.fragmentation.typicalpods import TypicalPods, written
from tonnage.simulator.fill import fill
from tonnage.simulator.placer import ClassPlacer
from tonnage.simulator.policies import Policy, policy_named
from tonnage.simulator.run import Meter
from tonnage.simulator.scene import Entry, Scene, Tasks
from tonnage.simulator.source import SceneSource
from tonnage.simulator.traces.openb import Trace, read_nodes, read_pods

POLICIES = {"expectedfill": ("expectedfill", 1.0), "fgd": ("fragmentation", 0.95)}
"""The plugin of each policy, and the part of all pods that it has to know."""
POD_LISTS = ("default", "gpuspec25", "multigpu20")
EVERY = 8
"""The part of the nodes that is used."""
LOADS = {"loss": (0.95, 1.0, 1.1), "queue": (0.9, 0.93, 0.96)}
WARM_UP, END = 1.0, 3.0
"""In mean stays."""
GANG = 4


class Measurement(NamedTuple):
    """One run of a policy."""

    case: str
    trace: str
    policy: str
    seed: int
    allocated: float
    """In percent: in a fill at 100 % of arrived demand, else the average over time."""
    lost: float = 0.0
    """Percent of the demand that was lost."""
    waiting: float = 0.0
    """Mean waiting time in thousandths of a stay."""


def scene_of(nodes: Path, pods: Path) -> Scene:
    """The pods of a list on every eighth node."""
    lines = read_nodes(str(nodes))[::EVERY]
    return SceneSource(trace=Trace(str(pods), lines, read_pods(str(pods)))).scene()


def study(nodes: Path, files: Sequence[tuple[str, Path]], kept: Path, seeds: int, tell: Callable[[str], None]) -> None:
    """Measure every case with every policy, and keep each result as soon as there is one."""
    done = {(one.case, one.trace, one.policy, one.seed) for one in read(kept)}
    for seed in range(seeds):
        for trace, file in files:
            scene = scene_of(nodes, file)
            for case, measure in _cases(scene):
                for policy in POLICIES:
                    if (case, trace, policy, seed) in done:
                        continue
                    found = measure(policy, seed)._replace(case=case, trace=trace, policy=policy, seed=seed)
                    with kept.open("a") as out:
                        out.write(json.dumps(found) + "\n")
                    tell(str(found))


def read(kept: Path) -> list[Measurement]:
    """The measurements that are kept."""
    return [Measurement(*json.loads(line)) for line in kept.read_text().splitlines()] if kept.exists() else []


def _cases(scene: Scene) -> Iterator[tuple[str, Callable[[str, int], Measurement]]]:
    for mode, loads in LOADS.items():
        for load in loads:
            yield f"{mode} {load:.0%}", lambda policy, seed, m=mode, x=load: departures(scene, policy, seed, m, x)
    yield "mix given", lambda policy, seed: filled(scene, _with_mix(policy, scene), seed)
    yield "mix learned", lambda policy, seed: filled(scene, _learning(policy), seed)
    yield "mix wrong", lambda policy, seed: filled(scene, _with_mix(policy, scene, wrong=True), seed)
    yield "mix drifts, learned", lambda policy, seed: filled(_drifting(scene), _learning(policy), seed)
    yield "gangs", lambda policy, seed: filled(_in_gangs(scene), _with_mix(policy, scene), seed)


def filled(scene: Scene, policy: Policy, seed: int) -> Measurement:
    """A fill up to 100 %."""
    run = fill(scene, policy, seed, demand=100)
    return Measurement("", "", "", 0, run.curves["gpu_allocated"][-1])


def _configured(name: str, plugin: dict[str, object]) -> Policy:
    plugins = [{"name": "priority"}, {"name": "gang"}, plugin]
    return Policy(name, yaml.safe_dump({"actions": "allocate", "tiers": [{"plugins": plugins}]}))


def _learning(policy: str) -> Policy:
    return _configured(policy, {"name": POLICIES[policy][0]})


def _with_mix(policy: str, scene: Scene, wrong: bool = False) -> Policy:
    """The workload's mix; a wrong one has twice or half the popularity of each kind."""
    plugin, covered = POLICIES[policy]
    mix: TypicalPods = scene.typical_pods(covered)
    if wrong:
        factors = random.Random(1)
        mix = tuple([msgspec.structs.replace(p, popularity=p.popularity * factors.choice((0.5, 2.0))) for p in mix])
    return _configured(policy, {"name": plugin, "arguments": {"workload": msgspec.to_builtins(written(mix))}})


def _drifting(scene: Scene) -> Scene:
    """Pods that share cards come rather late, all others rather early."""
    gpus = _gpus_of(scene)

    def come(rng: random.Random) -> Iterator[Entry]:
        drawn, asked, stream = list[tuple[float, Entry]](), 0.0, scene.fill(rng)
        while asked < gpus:
            entry = next(stream)
            asked += entry.gpus
            drawn.append((rng.random() + (0.5 if entry.shape.share < 1 else 0.0), entry))
        yield from [entry for _, entry in sorted(drawn, key=lambda one: one[0])]
        yield from stream

    return replace(scene, fill=come)


def _gpus_of(scene: Scene) -> int:
    return Meter(scene, scene.cluster(default_vendors()), "").gpus


def _in_gangs(scene: Scene) -> Scene:
    """Pods of one whole card come four at a time, as a gang, a fourth as often."""

    def come(rng: random.Random) -> Iterator[Entry]:
        for entry in scene.fill(rng):
            if entry.shape.cards != 1 or entry.shape.share < 1:
                yield entry
            elif rng.random() * GANG < 1:
                yield replace(entry, size=GANG)

    return replace(scene, fill=come, has_gangs=True)


def departures(scene: Scene, name: str, seed: int, mode: str, load: float) -> Measurement:
    """Poisson arrivals, exponential stays; pods that do not fit are lost, or wait and go first come, first served."""
    cluster, shapes = scene.cluster(default_vendors()), [shape for shape, _ in scene.popular]
    counts, meter = [count for _, count in scene.popular], Meter(scene, cluster, "")
    mean = sum(shape.gpus * count for shape, count in zip(shapes, counts, strict=True)) / sum(counts)
    rate, rng, tasks = load * meter.gpus / mean, random.Random(seed), Tasks(cluster.vendors)
    arrivals = [(0.0, rng.expovariate(1)) for _ in range(int(rate))]
    while arrivals[-1][0] < END:
        arrivals.append((arrivals[-1][0] + rng.expovariate(rate), rng.expovariate(1)))
    chosen = rng.choices(shapes, counts, k=len(arrivals))
    with Session(cluster, policy_named(name).settings(scene).plugins, brief=True) as session:
        placer, leaving = ClassPlacer(cluster, session), list[tuple[float, str, float]]()
        known: dict[str, tuple[float, float, float]] = {}
        held = area = demand = lost = waited = 0.0
        last, started = WARM_UP, 0

        def go_on(now: float) -> None:
            nonlocal area, last
            area, last = area + held * max(0.0, now - last), max(now, last)

        def start(task: Task, now: float) -> None:
            nonlocal held, waited, started
            arrived, stay, gpus = known.pop(task.key)
            held += gpus
            heapq.heappush(leaving, (now + stay, task.key, gpus))
            if arrived > WARM_UP:
                waited, started = waited + now - arrived, started + 1

        for number, ((now, stay), shape) in enumerate(zip(arrivals, chosen, strict=True)):
            while leaving and leaving[0][0] <= min(now, END):
                moment, key, gpus = heapq.heappop(leaving)
                go_on(moment)
                held -= gpus
                cluster.remove_pod(key)
                if mode == "queue":
                    for task in placer.place(True).placed:
                        start(task, moment)
            go_on(min(now, END))
            if now >= END:
                break
            task = tasks.of(Entry(f"p{number:06}", shape))
            known[task.key] = now, stay, shape.gpus
            demand += shape.gpus if now > WARM_UP else 0.0
            if mode == "queue":
                cluster.upsert_pod(task.pod)
                placer.arrive(cluster.waiting[task.key])
                for placed in placer.place(False).placed:
                    start(placed, now)
            elif session.place(task).node is not None:
                cluster.confirm(task.key)
                start(task, now)
            else:
                lost += shape.gpus if now > WARM_UP else 0.0
        late = [END - arrived for arrived, _, _ in known.values() if arrived > WARM_UP] if mode == "queue" else []
    waiting = 1000 * (waited + sum(late)) / max(1, started + len(late))
    return Measurement(
        "", "", "", 0, 100 * area / (END - WARM_UP) / meter.gpus, 100 * lost / max(demand, 1e-9), waiting
    )


def page(found: Sequence[Measurement]) -> list[str]:
    """The measurements in Markdown."""
    lines = [
        "## Other mixes, departures and gangs",
        "",
        f"`expectedfill` and `fgd` with the same arrivals, on every {EVERY}th node and with as many pods as they hold.",
        "",
        "* *loss* and *queue*: Poisson arrivals and exponential stays at the given load; what does not fit is lost, or",
        f"  waits. From {WARM_UP:g} to {END:g} mean stays, after a start with one load's worth of pods: GPUs allocated",
        "  and GPU demand lost, in percent; the mean waiting time, in thousandths of a stay.",
        "* *mix* and *gangs*: a fill, GPUs allocated at 100 % of arrived demand. The mix of the workload is given, or",
        "  learned from the pods so far, or has twice or half of the popularity of each kind. A mix that drifts has",
        f"  shared cards late. Gangs are pods of one whole card, {GANG} at a time.",
        "",
        "| case | pod list | runs | expectedfill | fgd | difference |",
        "|---|---|---|---|---|---|",
    ]
    for case, trace in sorted({(one.case, one.trace) for one in found}):
        runs = [one for one in found if (one.case, one.trace) == (case, trace)]
        by = {name: {one.seed: one for one in runs if one.policy == name} for name in POLICIES}
        seeds = sorted(set.intersection(*[set(each) for each in by.values()]))
        if seeds:
            lines.append(_row(case, trace, *[[each[seed] for seed in seeds] for each in by.values()]))
    return lines


def _row(case: str, trace: str, own: Sequence[Measurement], other: Sequence[Measurement]) -> str:
    measure = "waiting" if case.startswith("queue") else "allocated"
    values = [fmean(getattr(one, measure) for one in side) for side in (own, other)]
    cells = [f"waits {value:.2f}" if measure == "waiting" else f"{value:.2f}" for value in values]
    if case.startswith("loss"):
        cells = [
            f"{cell}, lost {fmean(one.lost for one in side):.2f}"
            for cell, side in zip(cells, (own, other), strict=True)
        ]
    return f"| {case} | {trace} | {len(own)} | {' | '.join(cells)} | {values[0] - values[1]:+.2f} |"
