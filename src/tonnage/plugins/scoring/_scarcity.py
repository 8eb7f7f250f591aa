"""Scarce resources in `resource-strategy-fit`: avoidance of nodes that have them, and reserves for them.

A node has a resource if it states an amount of it; CPU, memory, storage and pod slots count as present if it does not.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task
from tonnage.model.resources import CPU, MEMORY, NATIVE, show
from tonnage.plugins.helpers.weights import names_in
from tonnage.plugins.scoring._strategyarguments import Proportional, ScarceAvoidance

REASONS = ("ReservedForScarceResource",)
_MOST = 100
_MILLI = 1000
_GB = 10**9
_NOTHING = np.float64(-np.inf)


class _ScarceRequest(NamedTuple):
    """The resources that a pod is scored by: scarce ones first, then those it requests."""

    rows: Array
    limits: Array
    """Amounts from which on a node counts as lacking the resource."""
    weights: Array
    lost: bool
    """Whether the pod requests a resource that no node knows."""


class Avoidance:
    """Scores nodes by the scarce resources that they lack; 0 if they lack something that the pod requests."""

    def __init__(self, cluster: Cluster, args: ScarceAvoidance) -> None:
        self._cluster = cluster
        self._weights = args.weights
        self._weight_sum = sum(self._weights.values())
        self._factor = float(_MOST * args.weight)
        self._known: Memo[Requests, _ScarceRequest] = Memo()

    def score(self, task: Task, nodes: Nodes) -> Array:
        """100 × the weight × the weighted share of scarce resources that the node lacks."""
        looked = self._looked(task.requests)
        offered = nodes.allocatable.take(looked.rows, axis=0)
        has = (offered > 0) & (offered < looked.limits)
        scarce = len(looked.weights)
        owned: Array = np.add.accumulate(has[:scarce] * looked.weights, axis=0)[-1] if scarce else np.zeros(len(nodes))
        score: Array = (1 - owned / self._weight_sum) * self._factor
        score[~has[scarce:].all(axis=0) | looked.lost] = 0
        return score

    def _looked(self, requests: Requests) -> _ScarceRequest:
        memo = self._known.at(self._cluster.columns.layout)
        known = memo.get(requests)
        if known is None:
            resources = self._cluster.columns.resources
            scarce = [name for name in self._weights if name in resources]
            asked = [name for name, _ in requests if name in resources]
            names = [*scarce, *asked]
            limits = np.array([UNLIMITED + (name in NATIVE) for name in names], np.int64)
            weights = np.array([float(self._weights[name]) for name in scarce])
            rows = np.array([resources[name] for name in names], np.intp)
            lost = len(asked) < len(requests)
            known = memo.keep(requests, _ScarceRequest(rows, limits[:, None], weights[:, None], lost))
        return known


class _Reserved(NamedTuple):
    """What is reserved for idle scarce resources, as columns: their rows, and millicores and bytes for each."""

    rows: Array
    each: Array


class Reserve:
    """Rejects nodes that would have too little CPU or memory left for their idle scarce resources."""

    def __init__(self, cluster: Cluster, args: Proportional) -> None:
        self._cluster = cluster
        self._names = names_in(args.resources)
        self._each = {name: (args.needed(name, CPU) * _MILLI, args.needed(name, MEMORY) * _GB) for name in self._names}
        self._secondary = np.array([cluster.columns.resources[name] for name in (CPU, MEMORY)], np.intp)
        self._kept: Memo[None, _Reserved] = Memo()

    def evaluate(self, task: Task, nodes: Nodes) -> Array | None:
        """1 where too little would be left; pods that request a scarce resource are not checked."""
        if any(name in self._each for name, _ in task.requests):
            return None
        reserved = self._reserved(nodes)
        if reserved is None:
            return None
        wants = self._cluster.vector(task.requests).take(self._secondary)[:, None]
        left = nodes.free.take(self._secondary, axis=0) - wants
        short: Array = np.logical_or.reduce(left < reserved, axis=0)
        return short.view(np.uint8)

    def detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        """The message about one node."""
        columns = self._cluster.columns
        node, free = self._cluster.states[row].name, columns.free[:, row].copy()
        wants, resources = dict(task.requests), columns.resources
        reserved = self._reserved(Nodes(columns, slice(row, row + 1)))
        kept = [] if reserved is None else reserved[:, 0].tolist()

        def render() -> str:
            parts = []
            for name, amount in zip((CPU, MEMORY), kept, strict=True):
                left, wanted = int(free[resources[name]]), wants.get(name, 0)
                if left - wanted < amount:
                    shown = [show(name, value) for value in (wanted, max(0, left), int(amount))]
                    parts.append(f"{name}: wants {shown[0]}, {shown[1]} free, of which {shown[2]} are kept")
            idle = [
                f"{free[resources[name]]} {name}"
                for name in self._names
                if name in resources and 0 < free[resources[name]] < UNLIMITED // 2
            ]
            return f"{node}: {'; '.join(parts)} for {', '.join(idle)}"

        return render

    def _reserved(self, nodes: Nodes) -> Array | None:
        """Millicores and bytes that must stay free on each node; minus infinity where nothing is reserved."""
        columns = self._cluster.columns
        memo = self._kept.at(columns.layout)
        kept = memo.get(None)
        if kept is None:
            known = [name for name in self._names if name in columns.resources]
            each = np.array([self._each[name] for name in known]).reshape(len(known), 2)
            kept = memo.keep(None, _Reserved(np.array([columns.resources[name] for name in known], np.intp), each))
        if not len(kept.rows):
            return None
        idle = nodes.free.take(kept.rows, axis=0)
        offered = nodes.allocatable.take(kept.rows, axis=0)
        idle = np.where(offered < UNLIMITED, idle, 0)
        needed = (idle[:, None] * kept.each[:, :, None]).max(axis=0)
        return np.where(needed > 0, needed, _NOTHING)
