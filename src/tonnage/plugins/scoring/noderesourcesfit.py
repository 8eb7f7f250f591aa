"""Kubernetes' NodeResourcesFit scores, and the Resource Bin Packing priority function that preceded them.

| type | a resource's score | not counted | mean | range |
|---|---|---|---|---|
| LeastAllocated | free, in whole percents | what the node has none of | rounded down | 0–100 |
| MostAllocated | in use, in whole percents | what the node has none of | rounded down | 0–100 |
| RequestedToCapacityRatio | the shape at the whole percents in use | the same, and what scores 0 | rounded | 0–100 |
| ResourceBinPacking | (requested + used) / available | nothing | not rounded | 0–10 |

Kubernetes' three strategies count a container without requests as 100 millicores and 200 MiB, and skip extended
resources that the pod does not request; ResourceBinPacking uses requests and resources as they are.

The last two rows differ. With weights foo 5, memory 1, cpu 3, the function gives 5.97 to a node at 3/4, 512/1024 and
3/8 and 6.94 to one at 4/8, 768/1024 and 8/8, so 6 and 7 as its proposal says. RequestedToCapacityRatio with the shape
0→0, 100→10 gives 60 and 69, because it truncates 37.5 % to 37. Its first version with weights scored from 0 to 10 and
gave 5 and 7, truncating 7.5 to 7.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tonnage.cluster.columns import COUNTED, OFFERED, USED, Array, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task, counted_of, requests_of
from tonnage.framework.plugin import Plugin, PluginArguments, Pull
from tonnage.framework.points import Reads
from tonnage.framework.session import Session
from tonnage.model.resources import CPU, MEMORY, STORAGE, UNSTATED, Additions
from tonnage.plugins.scoring import _singlenode
from tonnage.plugins.scoring._fitarguments import (
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
from tonnage.plugins.scoring._resourcescores import (
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
    resource_bin_packing,
    shape_table,
)

__all__ = ["RATIO", "FitArguments", "NodeResourcesFit", "from_policy"]

_ALWAYS = (CPU, MEMORY, STORAGE)
"""Resources that count even for pods that do not request them."""
_NOTHING = (0, 0)


_FOR_ONE = {LEAST: _singlenode.least_allocated, MOST: _singlenode.most_allocated}


class FitRequest(NamedTuple):
    """The scored part of a pod: row, amount and weight of each resource, also as columns."""

    parts: list[tuple[int, int, int]]
    rows: list[int]
    amounts: Array
    weights: Array


class NodeResourcesFit(Plugin, trusted=True):
    """Orders nodes by the utilization of their resources with the pod."""

    name = "noderesourcesfit"
    Arguments = FitArguments

    def __init__(self, args: PluginArguments | None = None) -> None:
        super().__init__(args)
        self.args.check()
        strategy = self.args.scoring_strategy
        self._resources = [r for r in strategy.resources if is_scored(r.name, strategy.type)]
        self._as_it_is = strategy.type == BIN_PACKING
        self._kind = USED if self._as_it_is else COUNTED
        self._raises = not self._as_it_is and any(r.name in UNSTATED for r in self._resources)
        self._strategy = self._function(strategy.type)
        self._for_one = _FOR_ONE.get(strategy.type)

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> FitArguments:
        """Kubernetes' NodeResourcesFitArgs, extended by the strategy ResourceBinPacking and a `weight`."""
        return read(given, warn)

    def pull(self) -> Pull | None:
        weight, strategy = self.args.weight, self.args.scoring_strategy
        label = f"{self.name} with {strategy.type}" + (f" of weight {weight}" if weight != 1 else "")
        slopes = {LEAST: (-weight, weight), MOST: (weight, 0)}
        weights = {resource.name: resource.weight for resource in strategy.resources}
        return Pull(label, *slopes[strategy.type], weights) if strategy.type in slopes else None

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._known: Memo[tuple[Requests, Additions], FitRequest | None] = Memo()
        session.add_batch_node_order(self._score, key=counted_of if self._raises else requests_of, reads=Reads.LOOK)

    def _function(self, name: str) -> Callable[[Array, Array, Array], Array]:
        strategy = self.args.scoring_strategy
        if name == RATIO:
            shape = (strategy.requested_to_capacity_ratio or Ratio()).shape
            table = shape_table([(point.utilization, point.score) for point in shape])
            return partial(requested_to_capacity_ratio, table=table)
        if name == BIN_PACKING:
            return partial(resource_bin_packing, weight_sum=sum(resource.weight for resource in self._resources))
        return {LEAST: least_allocated, MOST: most_allocated}[name]

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        wanted = self._wanted((task.requests, task.unstated if self._raises else _NOTHING))
        if wanted is None:
            return None
        weight, few = float(self.args.weight), nodes.each
        if self._for_one is not None and few is not None:
            return np.array([self._for_one(node, wanted.parts) * weight for node in few])
        requested = nodes.amounts[self._kind, wanted.rows] + wanted.amounts
        return self._strategy(requested, nodes.amounts[OFFERED, wanted.rows], wanted.weights) * weight

    def _wanted(self, key: tuple[Requests, Additions]) -> FitRequest | None:
        memo = self._known.at(self._cluster.columns.layout)
        return memo[key] if key in memo else memo.keep(key, self._work_out(*key))

    def _work_out(self, requests: Requests, additions: Additions) -> FitRequest | None:
        columns, vector = self._cluster.columns, self._cluster.vector(requests)
        more = dict(zip(UNSTATED, additions, strict=True))
        scored = [
            (columns.resources[resource.name], resource)
            for resource in self._resources
            if resource.name in columns.resources
            and (self._as_it_is or resource.name in _ALWAYS or vector[columns.resources[resource.name]] > 0)
        ]
        if not scored:
            return None
        parts = [(row, int(vector[row]) + more.get(one.name, 0), one.weight) for row, one in scored]
        rows, amounts, weights = zip(*parts, strict=True)
        return FitRequest(parts, list(rows), np.array(amounts)[:, None], np.array(weights)[:, None])
