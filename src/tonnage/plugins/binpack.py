"""Volcano's binpack: prefer nodes that are the fuller once the pod is there.

Over the resources that the pod requests and that have a weight, a node scores

    100 × binpack.weight × Σ weight × (requested + used) / allocatable ÷ Σ weight

in 64-bit floats, without rounding. A node that lacks a resource gets nothing for it while its weight still counts; a
node on which one of them would overflow scores 0 altogether; a resource of weight 0 is not looked at.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.problem import Problem
from tonnage.model.resources import CPU, MEMORY

WEIGHT_KEY = "binpack.weight"
CPU_KEY = "binpack.cpu"
MEMORY_KEY = "binpack.memory"
RESOURCES_KEY = "binpack.resources"
RESOURCE_PREFIX = RESOURCES_KEY + "."
_MOST = 100
_LARGEST_WEIGHT = 2**63 - 1

Warn = Callable[[str, str], None]


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
        listed = _listed(given.get(RESOURCES_KEY, ""))
        for key in given:
            _check_key(str(key), listed)
        args = cls.Arguments(
            weight=_integer(given, WEIGHT_KEY),
            cpu=_weight(given, CPU_KEY, warn),
            memory=_weight(given, MEMORY_KEY, warn),
            resources={name: _weight(given, RESOURCE_PREFIX + name, warn) for name in listed},
        )
        for name, key in ((CPU, CPU_KEY), (MEMORY, MEMORY_KEY)):
            if args.resources.pop(name, None) is not None:
                warn(RESOURCES_KEY, f"{name} has no effect here; its weight is {key}")
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
        self._session = session
        self._cluster = session.cluster
        self._known: Memo[Requests, Weighted] = Memo()
        self._reported = False
        self._report_missing()
        session.add_batch_node_order(self._score, key=lambda task: task.requests)

    def _report_missing(self) -> None:
        """Say which weights stand for something that no node has, as soon as there are nodes."""
        states = self._cluster.nodes.values()
        if self._reported or not states:
            return
        self._reported = True
        for name, weight in self.weights.items():
            if weight and not any(state.offers.get(name) for state in states):
                message = f"no node offers {name}; its weight {weight} only lowers the score of pods that request it"
                self._session.report(Problem(f"Plugin/{self.name}", _key_of(name), "", "a resource of a node", message))

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        self._report_missing()
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
    return {CPU: CPU_KEY, MEMORY: MEMORY_KEY}.get(name, RESOURCE_PREFIX + name)


def _listed(value: object) -> list[str]:
    """The names in `binpack.resources`."""
    if not isinstance(value, str):
        example = ", ".join(map(str, value)) if isinstance(value, list) and value else "nvidia.com/gpu, example.com/foo"
        raise ArgumentError(RESOURCES_KEY, f"expects a comma-separated string; write {example!r}")
    return list(dict.fromkeys(name for part in value.split(",") if (name := part.strip())))


def _check_key(key: str, listed: list[str]) -> None:
    if key in (WEIGHT_KEY, CPU_KEY, MEMORY_KEY, RESOURCES_KEY):
        return
    name = key.removeprefix(RESOURCE_PREFIX)
    if name == key:
        taken = ", ".join((WEIGHT_KEY, CPU_KEY, MEMORY_KEY, RESOURCES_KEY))
        raise ArgumentError(key, f"is no argument of binpack, which takes {taken} and {RESOURCE_PREFIX}<name>")
    if name not in listed:
        raise ArgumentError(key, f"{name!r} is not listed in {RESOURCES_KEY}, so that its weight would not count")


def _integer(given: Mapping[str, Any], key: str) -> int:
    value = given.get(key, 1)
    if type(value) is not int:
        raise ArgumentError(key, f"expects an integer, not {value!r}")
    if abs(value) > _LARGEST_WEIGHT:
        raise ArgumentError(key, f"{value} does not fit into 64 bits")
    return value


def _weight(given: Mapping[str, Any], key: str, warn: Warn) -> int:
    value = _integer(given, key)
    if value < 0:
        warn(key, f"{value} is below 0; 1 is used, as in Volcano")
        return 1
    return value
