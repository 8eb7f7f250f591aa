"""Goals of a plan, and what a state of a node is worth to each of them."""

from enum import StrEnum

import msgspec
import numpy as np

from tonnage.cluster.columns import Array
from tonnage.overview.strandedcards import node_trouble
from tonnage.plan.defrag.states import NodeStates, States
from tonnage.plugins.fragmentation.fragments import SCALE, Fragments


class GoalKind(StrEnum):
    """What a plan is to bring about."""

    FREE_GPUS = "free-gpus"
    FREE_NODES = "free-nodes"
    USABLE = "usable"
    START = "start"


UNITS = {
    GoalKind.FREE_GPUS: "free GPUs",
    GoalKind.FREE_NODES: "free nodes",
    GoalKind.USABLE: "usable GPUs",
    GoalKind.START: "GPUs of started jobs",
}


class Goal(msgspec.Struct, frozen=True):
    """A goal, and how much of it is enough."""

    kind: GoalKind
    target: float | None = None
    """So much more than now is enough; as much as pays if nothing is given."""
    jobs: tuple[str, ...] = ()
    """The jobs to start; all that wait if none are named."""


class NodeWorth:
    """What states of nodes are worth to a goal, in its unit; more room is never worth less."""

    def __init__(self, board: NodeStates, goal: Goal, fragments: Fragments) -> None:
        self._board, self._goal, self._fragments = board, goal, fragments
        cluster = board.cluster
        fragments.update()
        self.open = np.array([not node_trouble(cluster, state) for state in cluster.states], np.bool_)
        """The nodes that take new pods: what is free elsewhere helps nobody."""
        self.workload = fragments.workload
        """The typical pods."""

    def of(self, states: States) -> Array:
        """The worth of each state."""
        kind, board = self._goal.kind, self._board
        worth: Array
        if kind == GoalKind.FREE_NODES:
            worth = (states.pods == 0).astype(np.float64)
            return worth
        if kind == GoalKind.START:
            return np.zeros(len(states))
        models = board.models(states)
        if kind == GoalKind.FREE_GPUS:
            cards = board.cards_of(states)
            whole = (states.cards >= cards.total).all(axis=0) & (board.shares(states) > 0)
            worth = whole.sum(axis=0).astype(np.float64)
        else:
            useful = self._fragments.usefulness.of(board.shares(states), models, board.cpu(states))
            worth = useful / SCALE
        return worth * self.open.take(states.rows)
