"""HAMi's node policy: binpack onto nodes whose cards are in use, or spread over idle ones.

A node's score is 10 × (slots + cores + memory in use, each as a share of the node's total), before the pod is placed
and over all its cards, in 32-bit floats as HAMi computes it. `binpack` prefers the highest, `spread` the lowest (its
scores are negative). Vendors may add a score for the links between a node's cards. Pods without cards are not scored.
"""

from collections.abc import Hashable
from typing import Literal

import numpy as np

from tonnage.cluster.columns import SLOTS, Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Demand, Task
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.points import UNCONCERNED, Reads
from tonnage.framework.session import Session
from tonnage.model.problem import Problem, annotation_field

BINPACK, SPREAD = "binpack", "spread"
POLICIES = (BINPACK, SPREAD)
ANNOTATION = "hami.io/node-scheduler-policy"
_WEIGHT = np.float32(10)


class NodePolicy(Plugin, trusted=True):
    """Orders nodes by how much of their cards is in use; a pod's annotation overrides the default."""

    name = "nodepolicy"

    class Arguments(PluginArguments):
        """The policy of pods without the annotation."""

        policy: Literal["binpack", "spread"] = "binpack"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._columns = session.cluster.columns
        self._known: Memo[tuple[Demand, ...], tuple[tuple[str, int], ...]] = Memo()
        self._scoring = {vendor.name for vendor in session.cluster.vendors if vendor.scores_nodes}
        session.add_pre_predicate(self._check)
        session.add_batch_node_order(self._score, key=self._key, reads=self._reads)

    def _check(self, task: Task, job: Job) -> None:
        """Report an unknown policy in the pod's annotation; it means binpack, as in HAMi."""
        wanted = task.annotations.get(ANNOTATION)
        if wanted is not None and wanted not in POLICIES:
            message = f"{wanted!r} is no node policy; {BINPACK} is used"
            expected = " or ".join(POLICIES)
            self._session.report(Problem(f"Pod/{task.key}", annotation_field(ANNOTATION), "", expected, message))

    def _key(self, task: Task) -> Hashable:
        if not task.demands:
            return UNCONCERNED
        counts = self._counts(task)
        return (self._policy(task), counts) if counts else self._policy(task)

    def _reads(self, task: Task) -> Reads:
        return Reads.EVERYTHING if self._counts(task) else Reads.LOOK

    def _counts(self, task: Task) -> tuple[tuple[str, int], ...]:
        """The number of cards that the pod asks of each vendor that scores nodes."""
        known = self._known.get(task.demands)
        if known is not None:
            return known
        counts: dict[str, int] = {}
        for demand in task.demands:
            for request in demand.requests:
                if request.vendor in self._scoring:
                    counts[request.vendor] = counts.get(request.vendor, 0) + request.count
        return self._known.keep(task.demands, tuple(counts.items()))

    def _policy(self, task: Task) -> str:
        wanted = task.annotations.get(ANNOTATION)
        if wanted is None:
            return str(self.args.policy)
        return wanted if wanted in POLICIES else BINPACK

    def _score(self, task: Task, nodes: Nodes) -> Array:
        policy = self._policy(task)
        columns = self._columns
        share = nodes.pick(columns.node_used).astype(np.float32)
        if columns.foreign_total:
            held = nodes.pick(columns.foreign).sum(axis=0)
            share[SLOTS] = nodes.pick(columns.node_used[SLOTS]) + held
        share /= nodes.pick(columns.node_total)
        slots, cores, memory = share
        score: Array = (slots + cores + memory) * _WEIGHT
        for vendor, count in self._counts(task):
            score += self._of_vendor(vendor, count, policy == SPREAD, nodes)
        return np.float32(0) - score if policy == SPREAD else score

    def _of_vendor(self, name: str, count: int, spreads: bool, nodes: Nodes) -> Array:
        """The score that a vendor adds to nodes with its cards."""
        number = self._cluster.vendor_numbers[name]
        vendor, states = self._cluster.vendors[number], self._cluster.states
        owned = nodes.pick(self._columns.vendor_cards[number]).tolist()
        rows = nodes.pick(np.arange(len(self._columns.version))).tolist()
        found = [
            vendor.node_score(states[row].node, count, spreads) if own else 0
            for row, own in zip(rows, owned, strict=True)
        ]
        return np.array(found, np.float32)
