"""Per-node callbacks: predicates and scores about one node, adapted to the batch form over all nodes.

A callback is called once per class of pods and node, and again only for nodes that changed.
"""

import math
from collections.abc import Callable

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.framework.classfit import FITS
from tonnage.framework.decision import Reason
from tonnage.framework.guard import Guard
from tonnage.framework.reasons import PLUGIN_FAILED
from tonnage.model.selection import Taint

MOST_REASONS = 60
"""How many different reasons one callback may give."""


class NodeView:
    """A node as a plugin author sees it."""

    __slots__ = ("_cluster", "_state")

    def __init__(self, cluster: Cluster, state: NodeState) -> None:
        self._cluster = cluster
        self._state = state

    @property
    def name(self) -> str:
        """The node's name."""
        return self._state.name

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self._state.node.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The node's annotations."""
        return self._state.node.annotations

    @property
    def taints(self) -> list[Taint]:
        """The node's taints."""
        return self._state.node.spec.taints or []

    @property
    def pods(self) -> list[str]:
        """Namespace/name of the pods on the node; without the leaving ones when the session looks ahead."""
        gone = self._cluster.leaving if self._cluster.is_ahead else ()
        return [key for key in self._state.holdings if key not in gone]

    def allocatable(self, resource: str) -> int:
        """How much of a resource the node offers; CPU in thousandths, 0 if it offers none."""
        return self._state.offers.get(resource, 0)

    def free(self, resource: str) -> int:
        """How much of a resource is left; 0 if the node offers none."""
        position = self._cluster.columns.resources.get(resource)
        if position is None or self._cluster.columns.allocatable[position, self._state.row] >= UNLIMITED:
            return 0
        return int(self._cluster.columns.free[position, self._state.row])


Predicate = Callable[[Task, Job, NodeView], Reason | None]
JobOf = Callable[[Task], Job]
NodeScore = Callable[[Task, NodeView], float]


class PerNode:
    """A plugin's callback about one node: what predicates and scores share."""

    def __init__(self, cluster: Cluster, guard: Guard) -> None:
        self._cluster = cluster
        self._guard = guard

    def _states(self, nodes: Nodes) -> list[NodeState]:
        states = self._cluster.states
        return states if nodes.rows is None else [states[row] for row in np.arange(len(states))[nodes.rows].tolist()]


class PerNodePredicate(PerNode):
    """A predicate about one node."""

    def __init__(self, cluster: Cluster, guard: Guard, function: Predicate, job_of: JobOf) -> None:
        super().__init__(cluster, guard)
        self._function = function
        self._job_of = job_of
        self.reasons: list[str] = ["", PLUGIN_FAILED]
        """Names by code; the list grows as the callback gives new reasons."""

    def evaluate(self, task: Task, nodes: Nodes) -> Array:
        return np.array([self._code(self._ask(task, state)) for state in self._states(nodes)], np.uint8)

    def detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        answer = self._ask(task, self._cluster.states[row])
        message = "" if answer is None else answer.message
        return lambda: message

    def _ask(self, task: Task, state: NodeState) -> Reason | None:
        try:
            answer = self._function(task, self._job_of(task), NodeView(self._cluster, state))
        except Exception as error:
            return Reason(
                PLUGIN_FAILED, self._guard.failed("predicate", f"{task.key} on {state.name}", error, self._function)
            )
        if answer is None or isinstance(answer, Reason):
            return answer
        what = f"answered {answer!r} instead of a Reason or nothing"
        return Reason(
            PLUGIN_FAILED, self._guard.failed("predicate", f"{task.key} on {state.name}", what, self._function)
        )

    def _code(self, answer: Reason | None) -> int:
        if answer is None:
            return FITS
        if answer.name in self.reasons:
            return self.reasons.index(answer.name)
        if len(self.reasons) > MOST_REASONS:
            return self.reasons.index(PLUGIN_FAILED)
        self.reasons.append(answer.name)
        return len(self.reasons) - 1


class PerNodeScore(PerNode):
    """A score of one node."""

    def __init__(self, cluster: Cluster, guard: Guard, function: NodeScore) -> None:
        super().__init__(cluster, guard)
        self._function = function

    def evaluate(self, task: Task, nodes: Nodes) -> Array:
        return np.array([self._ask(task, state) for state in self._states(nodes)], np.float64)

    def _ask(self, task: Task, state: NodeState) -> float:
        try:
            answer = self._function(task, NodeView(self._cluster, state))
        except Exception as error:
            self._guard.failed("node order", f"{task.key} on {state.name}", error, self._function)
            return 0.0
        if isinstance(answer, int | float | np.number) and math.isfinite(answer):
            return float(answer)
        what = f"answered {answer!r} instead of a finite number"
        self._guard.failed("node order", f"{task.key} on {state.name}", what, self._function)
        return 0.0
