"""The problem that a plan solves: pods that may move, nodes that could take them, limits, prices and the goal.

A solution is a list of moves, and of pods that start. The problem knows neither how it is found nor in which order the
moves are made.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.session import Session
from tonnage.model.duration import seconds
from tonnage.model.resources import CPU
from tonnage.plan.defrag.goals import Goal, GoalKind, NodeWorth
from tonnage.plan.defrag.limits import LimitRow, Limits
from tonnage.plan.defrag.movable import MovablePod, MovablePods, Stays, stays_on_its_node
from tonnage.plan.defrag.prices import HOUR, Losses, Prices
from tonnage.plan.defrag.states import NodeStates
from tonnage.plugins.fragmentation.fragments import Fragments
from tonnage.plugins.fragmentation.usablecards import UsableCards

_MOST_PROBES = 24
_MILLI = 1000


class PodMove(NamedTuple):
    """A pod that goes from its node to another one, or to other cards of the same."""

    pod: int
    """Its number among the movable pods."""
    row: int
    """The row of the node that it goes to."""


class JobStart(NamedTuple):
    """A waiting job that starts, with a node for each of its pods."""

    job: int
    rows: tuple[int, ...]


class Solution(NamedTuple):
    """Moves and starts, in no order."""

    moves: tuple[PodMove, ...] = ()
    starts: tuple[JobStart, ...] = ()


class WaitingJob(msgspec.Struct, frozen=True, eq=False):
    """A job that waits and is to start."""

    job: Job
    tasks: tuple[Task, ...]
    """The pods with which it starts."""
    kinds: tuple[int, ...]
    """Their classes."""
    gpus: float


class PodClasses(NamedTuple):
    """Classes of identical pods."""

    tasks: Sequence[Task]
    """A pod of each."""
    allowed: Array
    """Which nodes each may go to whatever pods leave, as (classes, nodes)."""


class PlanProblem:
    """All that a search for a plan needs to know."""

    def __init__(
        self,
        session: Session,
        goal: Goal,
        limits: Limits,
        prices: Prices,
        at: float,
        waiting: Sequence[tuple[Job, Sequence[Task]]] = (),
        fragments: Fragments | None = None,
    ) -> None:
        cluster = session.cluster
        self.session, self.goal, self.limits, self.prices, self.at = session, goal, limits, prices, at
        if fragments is None:
            usable = UsableCards(cluster, ())
            usable.learn()
            fragments = usable.fragments
        counts = np.zeros(cluster.columns.size, np.int64)
        for key, node in cluster.holders.items():
            task = cluster.running.get(key) or cluster.reserved.get(key)
            if node in cluster.nodes and task is not None and not stays_on_its_node(task.pod):
                counts[cluster.nodes[node].row] += 1
        self.board = NodeStates(cluster, counts)
        self.board.packs_cards = _packs_cards(session, self.board)
        losses = Losses(cluster, prices, at, seconds(prices.start_up))
        found = MovablePods(session, self.board, losses, limits, at)
        self.pods: list[MovablePod] = found.pods
        self.staying: dict[Stays, int] = dict(found.staying)
        self.waiting = [
            WaitingJob(job, tuple(tasks), tuple([found.kind_of(task) for task in tasks]), _gpus(tasks))
            for job, tasks in waiting
        ]
        self.rows: list[LimitRow] = found.rows.rows
        allowed = [~session.lasting(task).nodes for task in found.kinds]
        shape = len(found.kinds), cluster.columns.size
        self.kinds = PodClasses(found.kinds, np.array(allowed, np.bool_).reshape(shape))
        self.worth = NodeWorth(self.board, goal, fragments)
        hours = seconds(prices.horizon) / HOUR
        self.rates = self._rates() * hours
        """What one unit of the goal is worth on each node, over the horizon."""
        self.start_rate = prices.gpu_hour_gained * hours
        self.by_row: dict[int, list[int]] = {}
        """The movable pods of each node."""
        for number, pod in enumerate(self.pods):
            self.by_row.setdefault(pod.row, []).append(number)

    def _rates(self) -> Array:
        columns, prices = self.board.columns, self.prices
        if self.goal.kind != GoalKind.FREE_NODES:
            return np.full(columns.size, prices.gpu_hour_gained)
        if prices.node_hour_gained is not None:
            return np.full(columns.size, prices.node_hour_gained)
        gpus = (columns.model[:, : columns.size] > 0).sum(axis=0) * prices.gpu_hour_gained
        cores = columns.allocatable[columns.resources[CPU], : columns.size] / _MILLI * prices.cpu_hour_lost
        return np.where(gpus > 0, gpus, cores)

    def price(self, moves: Sequence[PodMove]) -> float:
        """What the moves cost; a gang that stops as a whole loses its work once."""
        return sum(self.pods[number].price for number in self.charged(moves))

    def charged(self, moves: Sequence[PodMove]) -> list[int]:
        """The moved pods whose loss counts: all but those whose gang is charged already."""
        gangs: set[str] = set()
        charged: list[int] = []
        for number in dict.fromkeys(move.pod for move in moves):
            pod = self.pods[number]
            if not pod.gang or pod.job.key not in gangs:
                charged.append(number)
            if pod.gang:
                gangs.add(pod.job.key)
        return charged


def _gpus(tasks: Sequence[Task]) -> float:
    """Cards that pods ask for; a part of a card counts as a part where it is stated as one."""
    return float(sum(request.count for task in tasks for demand in task.demands for request in demand.requests))


def _packs_cards(session: Session, board: NodeStates) -> bool:
    """Whether the plugins take the fullest cards that fit, seen on pods and nodes where that makes a difference."""
    cluster, shares = session.cluster, board.shares(board.now)
    tight = loose = 0
    tried: set[object] = set()
    for key in sorted(cluster.running):
        task = cluster.running[key]
        kind = session.class_key(task)
        if kind in tried or sum(r.count for d in task.demands for r in d.requests) != 1:
            continue
        tried.add(kind)
        request = next(request for demand in task.demands for request in demand.requests)
        may, _ = board.trial.each(task, request, board.cards_of(board.now))
        low, high = np.where(may, shares, np.iinfo(np.int64).max).min(axis=0), np.where(may, shares, -1).max(axis=0)
        rows = ((high > low) & (high >= 0)).nonzero()[0]
        if not len(rows):
            continue
        among = np.zeros(board.columns.size, np.bool_)
        among[rows] = True
        decision = session.decide(task, among)
        if decision.node is None:
            continue
        state = cluster.nodes[decision.node]
        uuids = [use.uuid for _, uses in decision.grant for container in uses for use in container]
        position = state.positions.get(uuids[0]) if uuids else None
        if position is not None:
            share = int(shares[position, state.row])
            tight += share == int(low[state.row])
            loose += share == int(high[state.row])
        if tight + loose >= _MOST_PROBES:
            break
    return tight >= loose
