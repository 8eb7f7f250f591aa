"""Kubernetes' scores of NodeResourcesFit, and the Resource Bin Packing priority function that came before them.

| type | a resource's score | not counted | mean | range |
|---|---|---|---|---|
| LeastAllocated | free, in whole percents | what the node has none of | rounded down | 0–100 |
| MostAllocated | in use, in whole percents | what the node has none of | rounded down | 0–100 |
| RequestedToCapacityRatio | the shape at the whole percents in use | the same, and what scores 0 | rounded | 0–100 |
| ResourceBinPacking | (requested + used) / available | nothing | not rounded | 0–10 |

Kubernetes' three count a container that does not say what it needs as 100 milli of a processor and 200 MiB, and leave
out extended resources that the pod does not request; ResourceBinPacking takes requests and resources as they are.

The last two rows differ. With weights foo 5, memory 1, cpu 3, a node at 3/4, 512/1024 and 3/8 gets 5.97 from the
function and one at 4/8, 768/1024 and 8/8 gets 6.94, so 6 and 7 as its proposal says. RequestedToCapacityRatio with the
shape 0→0, 100→10 gives 60 and 69: it cuts 37.5 % off to 37. Its first version with weights had scores from 0 to 10 and
gave 5 and 7, cutting 7.5 off to 7.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.holding import Holding
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.pod import Container, Pod, ResourceRequirements
from tonnage.model.resources import CPU, MEMORY, STORAGE, effective_request, without_nonsense
from tonnage.plugins.fitarguments import (
    BIN_PACKING,
    LEAST,
    MOST,
    RATIO,
    FitArguments,
    Ratio,
    Warn,
    from_policy,
    is_scored,
    read,
)
from tonnage.plugins.fitscoring import (
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
    resource_bin_packing,
    shape_table,
)

__all__ = ["UNSTATED", "NodeResourcesFit", "from_policy", "unstated"]

UNSTATED = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What a container counts that does not say how much it needs."""
_ALWAYS = (CPU, MEMORY, STORAGE)
"""Resources that count even for pods that do not request them."""

Additions = tuple[int, int]
"""What the containers that say nothing add to a pod's requests: processors and memory."""
_NOTHING: tuple[list[Holding], Additions] = ([], (0, 0))


class Wanted(NamedTuple):
    """What of a pod is scored, as columns: rows of resources, amounts and weights."""

    rows: Array
    amounts: Array
    weights: Array
    unstated: list[tuple[int, int]]
    """Which rows of these are, for held pods too, raised by containers that say nothing: here, and in `Unstated`."""


class NodeResourcesFit(Plugin):
    """Orders nodes by how much of their resources would be in use."""

    name = "noderesourcesfit"
    Arguments = FitArguments

    def __init__(self, args: PluginArguments | None = None) -> None:
        super().__init__(args)
        self.args.check()
        strategy = self.args.scoring_strategy
        self._resources = [r for r in strategy.resources if is_scored(r.name, strategy.type)]
        self._as_it_is = strategy.type == BIN_PACKING
        self._raises = not self._as_it_is and any(r.name in UNSTATED for r in self._resources)
        self._strategy: Callable[[Array, Array, Array], Array] = self._function(strategy.type)

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> FitArguments:
        """Kubernetes' NodeResourcesFitArgs, with the strategy ResourceBinPacking and a `weight` beside them."""
        return read(given, warn)

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._held = Unstated(session.cluster)
        self._known: Memo[tuple[Requests, Additions], Wanted] = Memo()
        session.add_batch_node_order(self._score, key=self._key)

    def _function(self, name: str) -> Callable[[Array, Array, Array], Array]:
        strategy = self.args.scoring_strategy
        if name == RATIO:
            shape = (strategy.requested_to_capacity_ratio or Ratio()).shape
            table = shape_table([(point.utilization, point.score) for point in shape])
            return partial(requested_to_capacity_ratio, table=table)
        if name == BIN_PACKING:
            return partial(resource_bin_packing, weight_sum=sum(resource.weight for resource in self._resources))
        return {LEAST: least_allocated, MOST: most_allocated}[name]

    def _key(self, task: Task) -> tuple[Requests, Additions]:
        return task.requests, unstated(task) if self._raises else (0, 0)

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        wanted = self._wanted(self._key(task))
        if not len(wanted.rows):
            return None
        offered = nodes.allocatable.take(wanted.rows, axis=0)
        requested = offered - nodes.free.take(wanted.rows, axis=0) + wanted.amounts
        if wanted.unstated:
            held = nodes.pick(self._held.current())
            for here, there in wanted.unstated:
                requested[here] += held[there]
        capacity = np.where(offered >= UNLIMITED, 0, offered)
        score = self._strategy(requested, capacity, wanted.weights)
        score *= float(self.args.weight)
        return score

    def _wanted(self, key: tuple[Requests, Additions]) -> Wanted:
        memo = self._known.at(self._cluster.columns.layout)
        known = memo.get(key)
        return memo.keep(key, self._work_out(*key)) if known is None else known

    def _work_out(self, requests: Requests, additions: Additions) -> Wanted:
        resources, vector = self._cluster.columns.resources, self._cluster.vector(requests)
        more = dict(zip(UNSTATED, additions, strict=True))
        scored = [
            (resource, resources[resource.name])
            for resource in self._resources
            if resource.name in resources
            and (self._as_it_is or resource.name in _ALWAYS or vector[resources[resource.name]] > 0)
        ]
        names = [resource.name for resource, _ in scored]
        rows = np.array([row for _, row in scored], np.intp)
        amounts = vector.take(rows) + np.array([more.get(name, 0) for name in names], np.int64)
        weights = np.array([resource.weight for resource, _ in scored], np.int64)
        order = list(UNSTATED)
        raised = [(here, order.index(name)) for here, name in enumerate(names) if name in UNSTATED]
        return Wanted(rows, amounts[:, None], weights[:, None], raised if self._raises else [])


class Unstated:
    """Per node, what pods that say nothing about processors or memory count there, kept current row by row.

    A pod on a node is known by what it holds, not by its containers: one that holds no processors, or no memory,
    counts as one container that says nothing.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layout = -1
        self._clock = -1
        self._added: Array = np.zeros((len(UNSTATED), 0), np.int64)
        self._counted: dict[int, tuple[list[Holding], Additions]] = {}
        """By row, the pods that were counted and what they came to."""

    def current(self) -> Array:
        """Processors and memory to add to what is in use on every node."""
        columns = self._cluster.columns
        if self._layout != columns.layout:
            self._layout, self._clock = columns.layout, -1
            self._added = np.zeros((len(UNSTATED), columns.size), np.int64)
            self._counted.clear()
        if self._clock < columns.clock:
            for row in (columns.version > np.int64(self._clock)).nonzero()[0].tolist():
                self._added[:, row] = self._of(row)
            self._clock = columns.clock
        return self._added

    def _of(self, row: int) -> Additions:
        """Counts only the pods that came last if the others are still the ones that were counted."""
        held = list(self._cluster.states[row].holdings.values())
        counted, (processors, memory) = self._counted.get(row, _NOTHING)
        fresh = len(counted)
        if held[:fresh] != counted:
            fresh = processors = memory = 0
        for holding in held[fresh:]:
            names = [name for name, _ in holding.requests]
            processors += 0 if CPU in names else UNSTATED[CPU]
            memory += 0 if MEMORY in names else UNSTATED[MEMORY]
        self._counted[row] = held, (processors, memory)
        return processors, memory


def unstated(task: Task) -> Additions:
    """What the containers of a pod that do not say what they need add to its requests; an explicit 0 is said."""
    spec = task.pod.spec
    if not spec.initContainers:
        processors = memory = 0
        for container in spec.containers:
            processors += 0 if _states(container, CPU) else UNSTATED[CPU]
            memory += 0 if _states(container, MEMORY) else UNSTATED[MEMORY]
        return processors, memory
    stated, raised = dict(task.requests), effective_request(_raised(without_nonsense(task.pod)))
    return (
        raised.get(CPU, 0) - stated.get(CPU, 0),
        raised.get(MEMORY, 0) - stated.get(MEMORY, 0),
    )


def _states(container: Container, name: str) -> bool:
    resources = container.resources
    return name in (resources.requests or ()) or name in (resources.limits or ())


def _raised(pod: Pod) -> Pod:
    """The pod with requests for what its containers do not say."""

    def raised(container: Container) -> Container:
        texts: dict[str, str | int | float] = {CPU: f"{UNSTATED[CPU]}m", MEMORY: UNSTATED[MEMORY]}
        missing = {name: text for name, text in texts.items() if not _states(container, name)}
        requests = {**(container.resources.requests or {}), **missing}
        return replace(container, resources=ResourceRequirements(requests, container.resources.limits))

    spec = pod.spec
    first, others = [raised(c) for c in spec.initContainers or ()], [raised(c) for c in spec.containers]
    return replace(pod, spec=replace(spec, initContainers=first, containers=others))
