"""Pod preferences: preferred pod affinity, and topology spread with ScheduleAnyway.

Both scores work as in Kubernetes and are integers from 0 to 100 over the nodes that the pod fits on. A plugin registers
one with its weight:

    add_part(session, PodAffinityScore(session.cluster), weight=2.0)
"""

from collections.abc import Hashable
from typing import Protocol

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.podindex import SelectedPods
from tonnage.cluster.podrules import HOSTNAME, Spread
from tonnage.cluster.task import Task
from tonnage.framework.points import UNCONCERNED
from tonnage.framework.session import Session
from tonnage.plugins.helpers.labeldomains import LabelDomains
from tonnage.plugins.helpers.nodeterms import counted_nodes

HIGHEST = np.float64(100.0)


class ScorePart(Protocol):
    """A score that depends on the pods of all nodes."""

    def key(self, task: Task) -> Hashable:
        """The key of a pod: everything that the scores depend on."""

    def applies(self, task: Task) -> bool:
        """Whether the score distinguishes nodes for this pod."""

    def scores(self, task: Task, fits: Array) -> Array:
        """Scores from 0 to 100, given the nodes that the pod fits on; the scores of other nodes do not matter."""


def add_part(session: Session, part: ScorePart, weight: float) -> None:
    """Register a score with its weight."""

    def evaluate(task: Task, nodes: Nodes) -> Array | None:
        return np.zeros(len(nodes)) if part.applies(task) else None

    def reduce(task: Task, scores: Array, fits: Array) -> Array:
        return part.scores(task, fits) * weight

    session.add_batch_node_order(evaluate, key=part.key, reduce=reduce, fresh=True)


class PodAffinityScore:
    """Preferred affinity and anti-affinity of the pod to placed pods, and of placed pods to it."""

    def __init__(self, cluster: Cluster, own_only: bool = False) -> None:
        self._cluster = cluster
        self._own_only = own_only
        """Whether pods without preferences are not scored, whatever placed pods prefer."""

    def key(self, task: Task) -> Hashable:
        rules = task.rules
        if rules is not None and rules.preferred:
            return rules.key
        drawing = self._cluster.placed.preferences
        return drawing.about(task).numbers if drawing and not self._own_only else UNCONCERNED

    def applies(self, task: Task) -> bool:
        rules = task.rules
        if rules is not None and rules.preferred:
            return True
        drawing = self._cluster.placed.preferences
        return not self._own_only and bool(drawing) and bool(drawing.about(task).terms)

    def scores(self, task: Task, fits: Array) -> Array:
        sums = self.sums(task)
        among = sums[fits]
        lowest, highest = (among.min(), among.max()) if among.size else (0.0, 0.0)
        if highest <= lowest:
            return np.zeros(len(sums))
        return np.trunc(HIGHEST * ((sums - lowest) / (highest - lowest)))

    def sums(self, task: Task) -> Array:
        """For each node the summed weights of the preferences of the pod, and of placed pods for it, in its domains."""
        placed = self._cluster.placed
        counted = (
            [
                (preference, placed.counts(SelectedPods((preference.term.selector,))))
                for preference in task.rules.preferred
            ]
            if task.rules
            else []
        )
        counted += placed.preferences.about(task).terms
        by_topology: dict[str, Array] = {}
        for preference, counts in counted:
            if counts:
                part = placed.column(counts) * np.int64(preference.weight)
                before = by_topology.get(preference.term.topology)
                by_topology[preference.term.topology] = part if before is None else before + part
        sums = np.zeros(self._cluster.columns.size)
        for topology, column in by_topology.items():
            sums += LabelDomains(self._cluster, topology).spread_out(column)
        return sums


class SpreadScore:
    """ScheduleAnyway constraints: the fewer matching pods in a node's domains, the better."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def key(self, task: Task) -> Hashable:
        rules = task.rules
        return (rules.key, task.selection) if rules is not None and rules.should_spread else UNCONCERNED

    def applies(self, task: Task) -> bool:
        return task.rules is not None and bool(task.rules.should_spread)

    def scores(self, task: Task, fits: Array) -> Array:
        assert task.rules is not None
        constraints = task.rules.should_spread
        topologies = [LabelDomains(self._cluster, constraint.topology) for constraint in constraints]
        complete = np.logical_and.reduce([domains.inside for domains in topologies])
        scored = fits & complete
        if not scored.any():
            return np.zeros(len(fits))
        total = np.zeros(len(fits))
        for constraint, domains in zip(constraints, topologies, strict=True):
            total += self._costs(task, constraint, domains, complete, scored)
        total = np.floor(total + 0.5)
        lowest, highest = total[scored].min(), total[scored].max()
        if highest == 0:
            return np.where(scored, HIGHEST, 0.0)
        return np.where(scored, np.floor(HIGHEST * (highest + lowest - total) / highest), 0.0)

    def _costs(self, task: Task, constraint: Spread, domains: LabelDomains, complete: Array, scored: Array) -> Array:
        """The cost of each node under one constraint."""
        placed = self._cluster.placed
        pods = placed.column(placed.counts(SelectedPods((constraint.selector,), staying=True)))
        if constraint.topology == HOSTNAME:
            size = int(np.count_nonzero(scored))
        else:
            size = int(np.count_nonzero(domains.totals(scored)))
            counted = counted_nodes(self._cluster, task, constraint)
            pods = domains.spread_out(pods * (complete if counted is None else complete & counted))
        return np.asarray(pods * np.log(size + 2.0) + (constraint.skew - 1))
