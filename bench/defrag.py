"""`python -m bench.defrag`: plans that move pods, next to other ways to choose moves, on fragmented states of openb.

A state is filled by best-fit to 95 % and then loses a third of its pods, seeded. Each other way moves pods for as many
GPU-hours as it likes; the plan gets the same limit. What counts is the GPUs that typical pods can use more of, per
GPU-hour lost. With `--quick` a small invented trace stands in for openb.
"""

import argparse
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.defrag_states import NOW, POLICY, fragmented
from tonnage.actions.allocate import Allocate
from tonnage.actions.eviction.consolidation import Consolidation
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.savepoint import Savepoint
from tonnage.cluster.task import Task
from tonnage.framework.cycle import run_cycle
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement, successor
from tonnage.model.duration import seconds
from tonnage.plan.defrag.goals import Goal, GoalKind
from tonnage.plan.defrag.limits import Limits
from tonnage.plan.defrag.planner import Planner, PlanRequest
from tonnage.plan.defrag.prices import Losses, Prices
from tonnage.plan.defrag.problem import PlanProblem
from tonnage.plugins.fragmentation.usablecards import UsableCards
from tonnage.simulator.policies import policy_named
from tonnage.simulator.scene import Scene
from tonnage.simulator.traces.openb import WHOLE, NodeLine, PodLine, Trace, read_nodes, read_pods, scene_of

DATA = Path(__file__).parents[2] / "shared" / "data" / "openb"
NODES, PODS = "openb_node_list_gpu_node.csv", "openb_pod_list_{}.csv"
TIME_LIMIT = 50.0
ARRIVING = (0.6, 0.8, 0.9)
"""How much of the free GPUs typical pods ask for, so that some wait and others are moved for them; the best counts."""


class Moved(NamedTuple):
    """What some moves come to."""

    gained: float
    """GPUs that typical pods can use more of."""
    lost: float
    """GPU-hours."""
    pods: int

    @property
    def per_hour(self) -> float:
        return self.gained / self.lost if self.lost else 0.0


class Mover:
    """A session in which pods move to the best node by the policy's scores, until it is left."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        self.cluster, self._plugins = cluster, plugins
        self._usable = UsableCards(cluster, plugins)
        self._usable.learn()

    def moved(self, choose: Callable[[Session, Statement, "Mover"], None]) -> Moved:
        """What the moves of a way to choose them come to; the cluster is afterwards as before."""
        self.lost, self.pods = 0.0, 0
        with Session(self.cluster, self._plugins, brief=True) as session:
            problem = PlanProblem(session, Goal(GoalKind.USABLE), Limits(), Prices(), NOW)
            self.hours = {pod.task.key: pod.loss.gpu_hours for pod in problem.pods}
            before = self._usable.count().usable
            with Statement(session) as statement, session.looking_ahead():
                choose(session, statement, self)
                after = self._usable.count().usable
        return Moved(after - before, self.lost, self.pods)

    def move(self, session: Session, statement: Statement, task: Task) -> bool:
        """Move one pod to another node than its own, by the policy's scores."""
        mark = len(statement)
        own = self.cluster.nodes[self.cluster.holders[task.key]].row
        statement.evict(task, "", "")
        again = msgspec.structs.replace(task, key=successor(task.key))
        among = session.fitting(again)
        among[own] = False
        decision = session.decide(again, among)
        if decision.node is None:
            statement.undo(mark)
            return False
        statement.take(decision)
        self.lost += self.hours[task.key]
        self.pods += 1
        return True


def emptiest_first(budget: float) -> Callable[[Session, Statement, Mover], None]:
    """Empty the node with the least GPUs in use, then the next, as deschedulers do; a node that cannot be is left."""

    def choose(session: Session, statement: Statement, mover: Mover) -> None:
        cluster = mover.cluster
        used = {state.name: _used(cluster, state.name) for state in cluster.states if state.holdings}
        for name in sorted(used, key=lambda one: (used[one], one)):
            keys = sorted(key for key in cluster.nodes[name].holdings if key in cluster.running)
            if mover.lost + sum(mover.hours[key] for key in keys) > budget:
                continue
            mark, before = len(statement), (mover.lost, mover.pods)
            if not all(mover.move(session, statement, cluster.running[key]) for key in keys):
                statement.undo(mark)
                mover.lost, mover.pods = before

    return choose


def _used(cluster: Cluster, name: str) -> float:
    state = cluster.nodes[name]
    total, free = cluster.columns.card_total[:, :, state.row], cluster.columns.card_free[:, :, state.row]
    return float((1.0 - free[2] / total[2].clip(1))[: len(state.devices)].sum())


def random_moves(budget: float, seed: int) -> Callable[[Session, Statement, Mover], None]:
    """Move pods at random, each to the best node by the policy's scores."""

    def choose(session: Session, statement: Statement, mover: Mover) -> None:
        keys = sorted(mover.hours)
        random.Random(f"moves {seed}").shuffle(keys)
        for key in keys:
            if mover.lost + mover.hours[key] <= budget:
                mover.move(session, statement, mover.cluster.running[key])

    return choose


def consolidation(cluster: Cluster, plugins: Sequence[Plugin], scene: Scene, seed: int, part: float) -> Moved:
    """KAI's consolidation: typical pods arrive for a part of the free GPUs, and others are moved for those that wait.

    What the arrivals get is taken back before counting, so that the room that the moves made is what is compared.
    """
    usable = UsableCards(cluster, plugins)
    usable.learn()
    draw, before = random.Random(f"arrivals {seed}"), usable.count()
    savepoint, lost, moved, asked = Savepoint(cluster), 0.0, 0, 0.0
    arrivals: list[str] = []
    losses = Losses(cluster, Prices(), NOW, seconds(Prices().start_up))
    with Session(cluster, plugins, brief=True) as session:
        for number, entry in enumerate(scene.fill(draw)):
            if asked >= part * before.free:
                break
            for pod in entry.pods(f".arrival.{number}"):
                cluster.upsert_pod(pod)
                arrivals.append(pod.key)
            asked += entry.gpus
        run_cycle(session, [Allocate(), Consolidation()])
        for key in arrivals:
            session.unplace(key)
        with session.looking_ahead():
            after = usable.count()
        for eviction in session.evictions:
            held = cluster.held(eviction.pod)
            gpus = sum(card.memory / WHOLE for use in held.vendors for card in use.cards) if held is not None else 0.0
            loss = losses.of(cluster.running[eviction.pod], gpus)
            lost, moved = lost + (loss.gpu_hours if loss is not None else 0.0), moved + 1
    savepoint.roll_back()
    for key in arrivals:
        cluster.remove_pod(key)
    return Moved(after.usable - before.usable, lost, moved)


def planned(cluster: Cluster, plugins: Sequence[Plugin], budget: float | None) -> tuple[Moved, str]:
    """What a plan within a number of GPU-hours comes to, and how it was found."""
    begin = time.monotonic()
    request = PlanRequest(Goal(GoalKind.USABLE), Limits(gpu_hours=budget), Prices(), NOW)
    found = Planner(cluster, plugins, ["allocate"], POLICY).plan(
        request, lambda: TIME_LIMIT - (time.monotonic() - begin)
    )
    gap = "" if found.gap is None else f", at most {100 * found.gap:.1f} % from the best"
    told = f"{time.monotonic() - begin:.1f} s, by the {found.found_by}{gap}"
    return Moved(found.after.gpus_usable - found.before.gpus_usable, found.gpu_hours_lost, len(found.moves)), told


def compare(name: str, scene: Scene, seed: int, budget: float) -> None:
    """Print one state: each other way, and the plan with what that one lost."""
    cluster = fragmented(scene, seed)
    plugins = policy_named(POLICY).settings(scene, seed).plugins
    print(f"\n{name}, seed {seed}: {len(cluster.nodes)} nodes, {len(cluster.running)} pods")
    mover = Mover(cluster, plugins)
    others = {
        "emptiest node first": mover.moved(emptiest_first(budget)),
        "random moves": mover.moved(random_moves(budget, seed)),
        "KAI's consolidation": max(
            (consolidation(cluster, plugins, scene, seed, part) for part in ARRIVING), key=lambda one: one.per_hour
        ),
    }
    behind: list[str] = []
    for way, other in others.items():
        print(_line(way, other), flush=True)
        if other.lost:
            plan, told = planned(cluster, plugins, other.lost)
            print(_line("  the plan for as much", plan) + f"  ({told})", flush=True)
            behind += [way] if plan.per_hour < other.per_hour else []
    plan, told = planned(cluster, plugins, None)
    print(_line("the plan without a limit", plan) + f"  ({told})")
    verdict = f"fewer than {', '.join(behind)}" if behind else "at least as many as all others"
    print(f"usable GPUs per GPU-hour lost, for as many GPU-hours as each other way: {verdict}", flush=True)


def _line(what: str, moved: Moved) -> str:
    return (
        f"{what:26} {moved.pods:5} pods moved, {moved.lost:8.1f} GPU-hours lost, {moved.gained:+8.2f} usable GPUs, "
        f"{moved.per_hour:+.3f} per GPU-hour"
    )


def quick_scene() -> Scene:
    """A small invented trace."""
    nodes = [NodeLine(f"n{number:02}", 96_000, 400_000, 8, "A") for number in range(12)]
    shapes = [(8000, 1, 500), (6000, 1, 300), (12000, 1, 1000), (24000, 2, 1000), (64000, 8, 1000), (4000, 1, 700)]
    pods = [
        PodLine(f"p{number}", cpu, 4000, gpus, milli, (), None, None, (number, 1))
        for number in range(120)
        for cpu, gpus, milli in [shapes[number % len(shapes)]]
    ]
    return scene_of(Trace("quick", nodes, pods))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of openb's CSV files")
    parser.add_argument("--lists", nargs="*", default=["default", "gpushare40", "multigpu20"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=400.0, help="GPU-hours that the other ways may lose")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(arguments)
    if given.quick:
        compare("invented", quick_scene(), 42, 40.0)
    else:
        if not (given.data / NODES).exists():
            sys.exit(f"there is no {given.data / NODES}; give --data")
        nodes = read_nodes(str(given.data / NODES))
        for name in given.lists:
            scene = scene_of(Trace(name, nodes, read_pods(str(given.data / PODS.format(name)))))
            for seed in range(42, 42 + given.seeds):
                compare(name, scene, seed, given.budget)
    print(f"\npeak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
