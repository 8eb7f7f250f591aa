"""Volcano's binpack: prefer nodes that are the fuller once the pod is there.

Over the resources that the pod requests and that have a weight, a node scores

    100 × binpack.weight × Σ weight × (requested + used) / allocatable ÷ Σ weight

in 64-bit floats, without rounding. A node that lacks a resource gets nothing for it while its weight still counts; a
node on which one of them would overflow scores 0 altogether; a resource of weight 0 is not looked at.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.resources import CPU, MEMORY
from tonnage.plugins.unoffered import Named, Unoffered
from tonnage.plugins.weights import Warn, check_keys, integer, resource_weights, weight_in

WEIGHT_KEY = "binpack.weight"
CPU_KEY = "binpack.cpu"
MEMORY_KEY = "binpack.memory"
RESOURCES_KEY = "binpack.resources"
RESOURCE_PREFIX = RESOURCES_KEY + "."
_MOST = 100
_OWN = {CPU: CPU_KEY, MEMORY: MEMORY_KEY}


class Weighted(NamedTuple):
    """What of a pod's requests is scored: rows of resources that nodes know, as columns; and the sum of all weights."""

    rows: Array
    amounts: Array
    weights: Array
    weight_sum: int


class Binpack(Plugin):
    """Orders nodes by the weighted share of them that would be in use."""

    name = "binpack"

    class Arguments(PluginArguments):
        """The weights; in a configuration they are called `binpack.weight`, `binpack.resources` and so on."""

        weight: int = 1
        """Multiplies the score; below 0 it prefers emptier nodes, at 0 the plugin does nothing."""
        cpu: int = 1
        memory: int = 1
        resources: dict[str, int] = msgspec.field(default_factory=dict)
        """Further resources and their weights; `cpu` and `memory` in it do not count."""

    def __init__(self, args: PluginArguments | None = None) -> None:
        super().__init__(args)
        self.weights: dict[str, int] = {**self.args.resources, CPU: self.args.cpu, MEMORY: self.args.memory}
        """The weight of every resource that has one."""
        for name, weight in self.weights.items():
            if weight < 0:
                raise ArgumentError(_key_of(name), f"{weight} is below 0")

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> Arguments:
        """Volcano's keys; where Volcano falls back to a default it is applied, with a warning."""
        check_keys(cls.name, given, (WEIGHT_KEY, CPU_KEY, MEMORY_KEY, RESOURCES_KEY), RESOURCES_KEY)
        args = cls.Arguments(
            weight=integer(given, WEIGHT_KEY),
            cpu=weight_in(given, CPU_KEY, warn),
            memory=weight_in(given, MEMORY_KEY, warn),
            resources=resource_weights(given, RESOURCES_KEY, _OWN, warn),
        )
        if args.weight < 0:
            warn(WEIGHT_KEY, f"{args.weight} is below 0, so that emptier nodes are preferred")
        if args.weight == 0:
            warn(WEIGHT_KEY, "0 switches the plugin off")
        elif not any((args.cpu, args.memory, *args.resources.values())):
            warn(WEIGHT_KEY, "every resource has weight 0, so that the plugin scores nothing")
        return args

    def written_arguments(self) -> dict[str, Any]:
        named = {WEIGHT_KEY: self.args.weight, CPU_KEY: self.args.cpu, MEMORY_KEY: self.args.memory}
        named[RESOURCES_KEY] = ", ".join(self.args.resources)
        return named | {RESOURCE_PREFIX + name: weight for name, weight in self.args.resources.items()}

    def on_session_open(self, session: Session) -> None:
        if self.args.weight == 0:
            return
        self._cluster = session.cluster
        self._known: Memo[Requests, Weighted] = Memo()
        effect = "its weight {} only lowers the score of pods that request it"
        named = [Named(_key_of(name), name, effect.format(weight)) for name, weight in self.weights.items() if weight]
        self._unoffered = Unoffered(session, self.name, named)
        session.add_batch_node_order(self._score, key=lambda task: task.requests)

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        self._unoffered.report()
        wanted = self._weighted(task.requests)
        if not wanted.weight_sum:
            return None
        free = nodes.free.take(wanted.rows, axis=0)
        offered = nodes.allocatable.take(wanted.rows, axis=0)
        missing = (offered == 0) | (offered >= UNLIMITED)
        shares = (offered - free + wanted.amounts) * wanted.weights / np.where(missing, np.inf, offered)
        # A running sum adds in the same order for one node as for thousands, so that the last digit is the same too.
        score: Array = np.add.accumulate(shares, axis=0)[-1] / wanted.weight_sum
        score[((free < wanted.amounts) & ~missing).any(axis=0)] = 0
        score *= float(_MOST * self.args.weight)
        # Below 0 the factor would leave a zero negative, which prints as -0.
        score += 0.0
        return score

    def _weighted(self, requests: Requests) -> Weighted:
        memo = self._known.at(self._cluster.columns.layout)
        known = memo.get(requests)
        if known is None:
            resources = self._cluster.columns.resources
            weighted = [(name, weight) for name, _ in requests if (weight := self.weights.get(name, 0))]
            scored = [(resources[name], float(weight)) for name, weight in weighted if name in resources]
            rows = np.array([row for row, _ in scored], np.intp)
            weights = np.array([weight for _, weight in scored])
            weight_sum = sum(weight for _, weight in weighted) if scored else 0
            amounts = self._cluster.vector(requests).take(rows)
            known = memo.keep(requests, Weighted(rows, amounts[:, None], weights[:, None], weight_sum))
        return known


def _key_of(name: str) -> str:
    return _OWN.get(name, RESOURCE_PREFIX + name)
