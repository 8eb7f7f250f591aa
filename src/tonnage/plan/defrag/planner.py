"""The planner: states the problem, searches, proves what was found, and writes the record.

Time is handed in: when the plan is to be carried out, and how many seconds the search may still take.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from tonnage.actions.eviction.evictionaction import starting
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.explain.holders import owner_of
from tonnage.explain.rehearsal import Rehearsal
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.duration import seconds
from tonnage.model.timestamp import rfc3339
from tonnage.plan.defrag.goals import UNITS, Goal, GoalKind
from tonnage.plan.defrag.greedy import Greedy
from tonnage.plan.defrag.limits import Limits
from tonnage.plan.defrag.movable import stays_on_its_node
from tonnage.plan.defrag.prices import HOUR, Prices
from tonnage.plan.defrag.problem import PlanProblem, PodMove, Solution
from tonnage.plan.defrag.proof import Proof, Proven
from tonnage.plan.defrag.record import (
    AffectedOwner,
    DefragPlan,
    PlanFigures,
    PlannedMove,
    PlannedStart,
    RefusedMove,
)
from tonnage.plan.defrag.search import Searched, search
from tonnage.plugins.fragmentation.usablecards import UsableCards

SecondsLeft = Callable[[], float]


class PlanError(ValueError):
    """A plan that cannot be made as asked."""


class PlanRequest(NamedTuple):
    """What a plan is asked to do."""

    goal: Goal
    limits: Limits
    prices: Prices
    now: float
    not_before: float | None = None
    use_solver: bool = True


class _Outcome(NamedTuple):
    """A solution after its proof."""

    proven: Proven
    after: PlanFigures
    gain: float
    value: float
    price: float
    name: str


class Planner:
    """Plans on a cluster that nobody else uses meanwhile, and leaves it as it was."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[str], decided_by: str) -> None:
        self._cluster, self._plugins, self._actions, self._decided_by = cluster, plugins, actions, decided_by
        self._usable = UsableCards(cluster, plugins)

    def plan(self, asked: PlanRequest, left: SecondsLeft) -> DefragPlan:
        """The plan; PlanError if there is nothing to plan for, SessionError if a plugin cannot be opened."""
        self._usable.learn()
        waiting: list[tuple[Job, Sequence[Task]]] = []
        if asked.goal.kind == GoalKind.START:
            with Rehearsal(self._cluster, self._plugins, self._actions).cycle(brief=True) as cycle:
                # Pods that the next cycle places are not a reason to move others.
                waiting = self._waiting(cycle, asked.goal)
        with Session(self._cluster, self._plugins, brief=True) as session:
            return self._plan(session, asked, waiting, left)

    def _plan(
        self, session: Session, asked: PlanRequest, waiting: Sequence[tuple[Job, Sequence[Task]]], left: SecondsLeft
    ) -> DefragPlan:
        at = asked.now if asked.not_before is None else max(asked.now, asked.not_before)
        problem = PlanProblem(session, asked.goal, asked.limits, asked.prices, at, waiting, self._usable.fragments)
        before, worth = self._figures(problem), float(problem.worth.of(problem.board.now) @ problem.rates)
        greedy = Greedy(problem, lambda: left() <= 0.0)
        solution = greedy.run()
        notes: list[str] = []
        if greedy.stopped_early:
            notes.append("time ran out before every release was weighed; the plan is the best so far")
        tried = [self._proven(problem, solution, worth, before, "greedy")]
        searched = Searched(None, None, "")
        if asked.use_solver:
            searched = search(problem, solution, left)
            if searched.note:
                notes.append(searched.note)
            if searched.solution is not None:
                tried.append(self._proven(problem, searched.solution, worth, before, "solver"))
        best = max(tried, key=lambda one: one.value - one.price)
        if best.value - best.price <= 0.0:
            best = self._proven(problem, Solution(), worth, before, best.name)
        return self._record(problem, asked, best, before, searched.bound, notes)

    def _waiting(self, session: Session, goal: Goal) -> list[tuple[Job, Sequence[Task]]]:
        """The jobs that the goal wants to start, with the pods that they start with."""
        cluster = self._cluster
        jobs = {job.key: job for job in session.waiting_jobs()}
        for name in goal.jobs:
            if name not in jobs:
                placed = any(session.job_of(task).key == name for task in cluster.reserved.values())
                why = "the next scheduling cycle places it" if placed else "no waiting job has that name"
                known = ", ".join(sorted(jobs)[:5])
                raise PlanError(f"cannot plan to start {name}: {why}" + (f"; there are {known}" if known else ""))
        wanted = [jobs[name] for name in dict.fromkeys(goal.jobs)] if goal.jobs else list(jobs.values())
        found = [(job, tuple(starting(session, job))) for job in wanted]
        return [(job, tasks) for job, tasks in found if tasks]

    # -- what solutions come to

    def _proven(
        self, problem: PlanProblem, solution: Solution, worth: float, before: PlanFigures, name: str
    ) -> _Outcome:
        figures: list[PlanFigures] = []
        states: list[float] = []

        def look() -> None:
            figures.append(self._figures(problem))
            states.append(self._worth(problem))

        proven = Proof(problem, lambda: self._usable.count().usable).run(solution, look)
        moves = [PodMove(move.pod, -1) for move in proven.moves]
        started = sum(problem.waiting[start.job].gpus for start in proven.starts)
        rate = max(float(problem.rates.max(initial=0.0)), 1e-12)
        value = states[0] - worth + started * problem.start_rate
        gain = started if problem.waiting else value / rate
        if problem.goal.kind == GoalKind.FREE_NODES:
            gain = float(figures[0].nodes_free - before.nodes_free)
        if problem.goal.target is not None:
            value = min(value, problem.goal.target * rate)
        return _Outcome(proven, figures[0], gain, value, problem.price(moves), name)

    def _worth(self, problem: PlanProblem) -> float:
        """The worth of the cluster as the engine has it now."""
        columns, board = self._cluster.columns, problem.board
        size = columns.size
        states = replace(
            board.now, cards=columns.card_free[..., :size], free=columns.free[:, :size], pods=self._counts()
        )
        return float(problem.worth.of(states) @ problem.rates)

    def _counts(self) -> Array:
        """Pods on each node that count, as things will be once the leaving pods have left."""
        cluster = self._cluster
        counts = np.zeros(cluster.columns.size, np.int64)
        for key, node in cluster.holders.items():
            task = cluster.running.get(key) or cluster.reserved.get(key)
            if key in cluster.leaving or node not in cluster.nodes or task is None or stays_on_its_node(task.pod):
                continue
            counts[cluster.nodes[node].row] += 1
        return counts

    def _figures(self, problem: PlanProblem) -> PlanFigures:
        free = self._usable.count()
        columns, board = self._cluster.columns, problem.board
        states = replace(board.now, cards=columns.card_free[..., : columns.size])
        whole = (states.cards >= board.cards_of(states).total).all(axis=0) & (board.shares(states) > 0)
        whole &= problem.worth.open
        return PlanFigures(
            free.cards, free.free, free.usable, int(whole.sum()), columns.size, int((self._counts() == 0).sum())
        )

    # -- the record

    def _record(
        self,
        problem: PlanProblem,
        asked: PlanRequest,
        best: _Outcome,
        before: PlanFigures,
        bound: float | None,
        notes: list[str],
    ) -> DefragPlan:
        charged = set(problem.charged([PodMove(move.pod, -1) for move in best.proven.moves]))
        moves: list[PlannedMove] = []
        for step, move in enumerate(best.proven.moves, 1):
            pod = problem.pods[move.pod]
            pays = move.pod in charged
            charged.discard(move.pod)
            owner = owner_of(pod.task.pod.metadata)
            moves.append(
                PlannedMove(
                    step,
                    pod.task.key,
                    pod.task.uid,
                    pod.job.key,
                    pod.job.queue,
                    "/".join(owner) if owner is not None else "",
                    pod.task.priority,
                    move.node,
                    move.to,
                    list(move.devices),
                    list(move.to_devices),
                    pod.gpus,
                    pod.loss.hours if pays else 0.0,
                    pod.loss.gpu_hours if pays else 0.0,
                    pod.loss.price if pays else 0.0,
                    list(pod.gang) if pays else [],
                    move.is_detour,
                    move.usable,
                )
            )
        net = best.value - best.price
        if bound is not None:
            # Shares are rounded when they are counted, so that a bound that is reached may lie a hair below.
            bound = max(bound, net)
        gap = None if bound is None else max(0.0, (bound - net) / bound) if bound > 1e-9 else 0.0
        starts = [
            PlannedStart(
                problem.waiting[one.job].job.key,
                problem.waiting[one.job].job.queue,
                problem.waiting[one.job].gpus,
                one.nodes,
            )
            for one in best.proven.starts
        ]
        states = self._cluster.states
        return DefragPlan(
            asked.goal.kind,
            asked.goal.target,
            rfc3339(asked.now),
            None if asked.not_before is None else rfc3339(asked.not_before),
            self._decided_by,
            seconds(asked.prices.horizon) / HOUR,
            before,
            best.after,
            best.gain,
            UNITS[asked.goal.kind],
            best.value,
            best.price,
            sum(move.gpu_hours_lost for move in moves),
            moves,
            starts,
            _affected(moves),
            bound,
            gap,
            best.name,
            {why.value: count for why, count in sorted(problem.staying.items())},
            [RefusedMove(problem.pods[one.pod].task.key, states[one.row].name, one.why) for one in best.proven.refused],
            _reached(problem, moves),
            notes,
            [],
        )


def _affected(moves: Sequence[PlannedMove]) -> list[AffectedOwner]:
    """What each namespace and queue loses, the most first."""
    found: dict[tuple[str, str], AffectedOwner] = {}
    for move in moves:
        key = move.pod.partition("/")[0], move.queue
        known = found.get(key) or AffectedOwner(*key, 0, 0.0, 0.0)
        found[key] = msgspec.structs.replace(
            known,
            pods=known.pods + 1,
            gpu_hours=known.gpu_hours + move.gpu_hours_lost,
            price=known.price + move.price,
        )
    return sorted(found.values(), key=lambda one: (-one.gpu_hours, one.namespace, one.queue))


def _reached(problem: PlanProblem, moves: Sequence[PlannedMove]) -> list[str]:
    """The limits of which nothing worth a move is left."""
    taken = [0.0] * len(problem.rows)
    moved = {move.pod for move in moves}
    smallest: dict[int, float] = {}
    for pod in problem.pods:
        for row, amount in pod.takes:
            if pod.task.key in moved:
                taken[row] += amount
            else:
                smallest[row] = min(smallest.get(row, float("inf")), amount)
    return [
        f"{row.name}: {taken[number]:g} of {row.most:g}"
        for number, row in enumerate(problem.rows)
        if number in smallest and taken[number] + smallest[number] > row.most + 1e-9
    ]
