"""Volcano's binpack: nodes that are fuller with the pod score higher.

Over the resources that the pod requests and that have a weight, a node scores

    100 × binpack.weight × Σ weight × (requested + used) / allocatable ÷ Σ weight

in 64-bit floats, without rounding. A resource that the node lacks scores 0, but its weight still counts; a node on
which a resource would overflow scores 0; a resource of weight 0 is ignored.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tonnage.cluster.columns import OFFERED, USED, Array, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task, requests_of
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments, Pull
from tonnage.framework.points import Reads
from tonnage.framework.session import Session
from tonnage.model.resources import CPU, MEMORY
from tonnage.plugins.helpers.unknownresources import NamedResource, UnknownResources
from tonnage.plugins.helpers.weights import Warn, check_keys, integer, resource_weights, weight_in
from tonnage.plugins.scoring import _singlenode

WEIGHT_KEY = "binpack.weight"
CPU_KEY = "binpack.cpu"
MEMORY_KEY = "binpack.memory"
RESOURCES_KEY = "binpack.resources"
RESOURCE_PREFIX = RESOURCES_KEY + "."
_MOST = 100
_OWN = {CPU: CPU_KEY, MEMORY: MEMORY_KEY}


class BinpackRequest(NamedTuple):
    """The scored part of a pod's requests."""

    parts: list[tuple[int, int, float]]
    """Row, amount and weight of each resource that nodes know."""
    weight_sum: float
    """The sum over all resources."""


class Binpack(Plugin, trusted=True):
    """Orders nodes by their weighted share in use with the pod."""

    name = "binpack"

    class Arguments(PluginArguments):
        """The weights, named `binpack.weight`, `binpack.resources` and so on in a configuration."""

        weight: int = 1
        """The factor of the score; a negative one prefers emptier nodes, 0 switches the plugin off."""
        cpu: int = 1
        memory: int = 1
        resources: dict[str, int] = msgspec.field(default_factory=dict)
        """Further resources and their weights; `cpu` and `memory` are ignored here."""

    def __init__(self, args: PluginArguments | None = None) -> None:
        super().__init__(args)
        self.weights: dict[str, int] = {**self.args.resources, CPU: self.args.cpu, MEMORY: self.args.memory}
        """The weight of every resource that has one."""
        for name, weight in self.weights.items():
            if weight < 0:
                raise ArgumentError(_key_of(name), f"{weight} is below 0")

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> Arguments:
        """Volcano's keys; where Volcano falls back to a default, the default applies with a warning."""
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

    def pull(self) -> Pull:
        weights = {name: weight for name, weight in self.weights.items() if weight}
        return Pull(f"{self.name} of weight {self.args.weight}", self.args.weight, 0, weights)

    def on_session_open(self, session: Session) -> None:
        if self.args.weight == 0:
            return
        self._cluster = session.cluster
        self._known: Memo[Requests, BinpackRequest | None] = Memo()
        effect = "its weight {} only lowers the score of pods that request it"
        named = [
            NamedResource(_key_of(name), name, effect.format(weight)) for name, weight in self.weights.items() if weight
        ]
        self._unknown_resources = UnknownResources(session, self.name, named)
        session.add_batch_node_order(self._score, key=requests_of, reads=Reads.LOOK)

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        self._unknown_resources.report()
        wanted = self._weighted(task.requests)
        if wanted is None:
            return None
        factor = float(_MOST * self.args.weight)
        few = nodes.each
        # A negative factor would turn a zero into -0.
        if few is not None:
            return np.array([_singlenode.binpack(node, *wanted) * factor + 0.0 for node in few])
        return _shares(nodes, *wanted) * factor + 0.0

    def _weighted(self, requests: Requests) -> BinpackRequest | None:
        memo = self._known.at(self._cluster.columns.layout)
        return memo[requests] if requests in memo else memo.keep(requests, self._work_out(requests))

    def _work_out(self, requests: Requests) -> BinpackRequest | None:
        resources = self._cluster.columns.resources
        weighted = [(name, weight) for name, _ in requests if (weight := self.weights.get(name, 0))]
        scored = [(resources[name], float(weight)) for name, weight in weighted if name in resources]
        if not scored:
            return None
        vector = self._cluster.vector(requests)
        parts = [(row, int(vector[row]), weight) for row, weight in scored]
        return BinpackRequest(parts, float(sum(weight for _, weight in weighted)))


def _shares(nodes: Nodes, parts: list[tuple[int, int, float]], weight_sum: float) -> Array:
    """The weighted share of each node in use with the pod; 0 where a resource would overflow."""
    total, over = np.zeros(len(nodes)), np.zeros(len(nodes), np.bool_)
    for row, amount, weight in parts:
        offered = nodes.amounts[OFFERED, row]
        after, has = nodes.amounts[USED, row] + amount, offered > 0
        total += after * weight / np.where(has, offered, np.inf)
        over |= has & (after > offered)
    total[over] = 0
    return total / weight_sum


def _key_of(name: str) -> str:
    return _OWN.get(name, RESOURCE_PREFIX + name)
