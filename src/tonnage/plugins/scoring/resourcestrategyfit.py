"""Volcano's resource-strategy-fit: binpack by some resources, spread by others.

Over the resources that the pod requests and that have a strategy, a node scores

    100 × resourceStrategyFitWeight × Σ weight × share ÷ Σ weight

in 64-bit floats, where the share is the part of the node that would be in use (MostAllocated) or free (LeastAllocated).
A resource that the node lacks scores 0, but its weight still counts; a node on which a resource would overflow scores
0. A pod's annotations may replace type and weights.

`_scarcity` holds `sra` (scarce resource avoidance) and `proportional`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task
from tonnage.framework.plugin import Plugin, PluginArguments, Pull
from tonnage.framework.session import Session
from tonnage.model.problem import Problem, annotation_field
from tonnage.model.wire import WireError, decode
from tonnage.plugins.helpers.unknownresources import ANY, NamedResource, UnknownResources
from tonnage.plugins.helpers.weights import Warn, names_in
from tonnage.plugins.scoring._scarcity import REASONS, Avoidance, Reserve
from tonnage.plugins.scoring._strategyarguments import (
    LEAST,
    TYPES,
    Strategy,
    StrategyArguments,
    read,
)

TYPE_ANNOTATION = "volcano.sh/resource-strategy-scoring-type"
WEIGHT_ANNOTATION = "volcano.sh/resource-strategy-weight"
_MOST = 100
_EXPECTED_WEIGHTS = 'weights as whole numbers from 0 up, such as {"cpu": 1, "nvidia.com/gpu": 5}'

_Key = tuple[Requests, str | None, str | None]


class StrategyRequest(NamedTuple):
    """The scored part of a pod's requests: rows of known resources, as columns, and the sum of all weights."""

    rows: Array
    amounts: Array
    weights: Array
    least: Array
    weight_sum: int


class ResourceStrategyFit(Plugin, trusted=True):
    """Orders nodes by a strategy for each resource; optionally avoids scarce resources or keeps reserves for them."""

    name = "resource-strategy-fit"
    Arguments = StrategyArguments

    def __init__(self, args: PluginArguments | None = None) -> None:
        super().__init__(args)
        self.args.check()

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> StrategyArguments:
        """Volcano's keys; where Volcano falls back to a default, the default applies with a warning."""
        return read(given, warn)

    def pull(self) -> Pull | None:
        """The pull of the strategies if all resources have one type; otherwise they pull both ways."""
        weight, strategies = self.args.resource_strategy_fit_weight, self.args.resources
        kinds = {strategy.type for strategy in strategies.values()}
        if len(kinds) != 1:
            return None
        (kind,) = kinds
        slope, base = (-weight, weight) if kind == LEAST else (weight, 0)
        weights = {name: strategy.weight for name, strategy in strategies.items()}
        return Pull(f"{self.name} with {kind} of weight {weight}", slope, base, weights)

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._known: Memo[_Key, StrategyRequest] = Memo()
        self._unknown_resources = UnknownResources(session, self.name, self._named())
        args = self.args
        if args.proportional.enable and names_in(args.proportional.resources):
            reserve = Reserve(session.cluster, args.proportional)
            session.add_batch_predicate(
                reserve.evaluate, key=lambda task: task.requests, reasons=REASONS, detail=reserve.detail
            )
        self._avoidance: Avoidance | None = None
        if args.sra.enable and args.sra.weight and any(args.sra.weights.values()):
            self._avoidance = Avoidance(session.cluster, args.sra)
        if args.resource_strategy_fit_weight:
            session.add_pre_predicate(self._check)
        if args.resource_strategy_fit_weight or self._avoidance is not None:
            session.add_batch_node_order(self._score, key=self._key)

    def _named(self) -> Iterator[NamedResource]:
        """The resources that the arguments name."""
        args = self.args
        if args.resource_strategy_fit_weight:
            for name, strategy in args.resources.items():
                effect = f"its weight {strategy.weight} only lowers the score of pods that request it"
                yield NamedResource(f"resources.{name}", name, effect)
        if args.sra.enable:
            for name, weight in args.sra.weights.items():
                yield NamedResource("sra.resources", name, f"its weight {weight} only raises the score of all nodes")
        if args.proportional.enable:
            for name in names_in(args.proportional.resources):
                yield NamedResource("proportional.resources", name, "nothing is kept for it")

    def _key(self, task: Task) -> _Key:
        annotations = task.annotations
        return task.requests, annotations.get(TYPE_ANNOTATION), annotations.get(WEIGHT_ANNOTATION)

    def _check(self, task: Task, job: Job) -> None:
        """Report annotations of a pod that have no effect."""
        _, wanted, text = self._key(task)
        if wanted is None and text is None:
            return
        field, expected = WEIGHT_ANNOTATION, _EXPECTED_WEIGHTS
        if wanted is None:
            expected, message = f"{TYPE_ANNOTATION} beside it", f"has no effect without {TYPE_ANNOTATION}"
        elif wanted not in TYPES:
            field, expected = TYPE_ANNOTATION, " or ".join(TYPES)
            message = f"{wanted!r} is no scoring type; the strategies of the configuration are used"
        elif text is None:
            message = "is missing, so that every node scores 0 for the pod"
        elif _own_weights(text) is None:
            message = f"{text!r} cannot be read, so that every node scores 0 for the pod"
        else:
            return
        self._session.report(Problem(f"Pod/{task.key}", annotation_field(field), "", expected, message))

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        self._unknown_resources.report()
        score = self._by_strategy(task, nodes) if self.args.resource_strategy_fit_weight else None
        if self._avoidance is None:
            return score
        avoiding = self._avoidance.score(task, nodes)
        return avoiding if score is None else score + avoiding

    def _by_strategy(self, task: Task, nodes: Nodes) -> Array | None:
        wanted = self._weighted(self._key(task))
        if not wanted.weight_sum:
            return None
        left = nodes.free.take(wanted.rows, axis=0) - wanted.amounts
        offered = nodes.allocatable.take(wanted.rows, axis=0)
        missing = (offered == 0) | (offered >= UNLIMITED)
        counted = np.where(wanted.least, left, offered - left)
        shares = counted * wanted.weights / np.where(missing, np.inf, offered)
        # A running sum adds in the same order for one node as for thousands, so that the last digit agrees.
        score: Array = np.add.accumulate(shares, axis=0)[-1] / wanted.weight_sum
        score[((left < 0) & ~missing).any(axis=0)] = 0
        score *= float(_MOST * self.args.resource_strategy_fit_weight)
        return score

    def _weighted(self, key: _Key) -> StrategyRequest:
        memo = self._known.at(self._cluster.columns.layout)
        known = memo.get(key)
        if known is None:
            requests, wanted, text = key
            resources = self._cluster.columns.resources
            own = (_own_weights(text or "") or {}) if wanted in TYPES else None
            found = [(name, self._strategy(name, wanted or LEAST, own)) for name, _ in requests]
            weighted = [(name, strategy) for name, strategy in found if strategy is not None and strategy.weight]
            scored = [(resources[name], strategy) for name, strategy in weighted if name in resources]
            rows = np.array([row for row, _ in scored], np.intp)
            weights = np.array([float(strategy.weight) for _, strategy in scored])
            least = np.array([strategy.type == LEAST for _, strategy in scored], np.bool_)
            weight_sum = sum(strategy.weight for _, strategy in weighted) if scored else 0
            amounts = self._cluster.vector(requests).take(rows)
            columns = amounts[:, None], weights[:, None], least[:, None]
            known = memo.keep(key, StrategyRequest(rows, *columns, weight_sum))
        return known

    def _strategy(self, name: str, wanted: str, own: Mapping[str, int] | None) -> Strategy | None:
        """A resource's strategy: the pod's own, or by name, or by the longest matching prefix."""
        if own is not None:
            return Strategy(wanted, own[name]) if name in own else None
        named: dict[str, Strategy] = self.args.resources
        if name in named:
            return named[name]
        beginnings = [text for text in named if text.endswith(ANY) and name.startswith(text[:-1])]
        return named[max(beginnings, key=len)] if beginnings else None


def _own_weights(text: str) -> dict[str, int] | None:
    """The weights in a pod's annotation; nothing if they are malformed."""
    try:
        weights = decode(text.encode(), dict[str, int])
    except (WireError, UnicodeError):
        return None
    return weights if all(0 <= weight < 2**63 for weight in weights.values()) else None
