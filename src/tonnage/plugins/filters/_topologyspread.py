"""Topology spread constraints with DoNotSchedule: the skew between domains stays within `maxSkew`.

A constraint counts the pods that match its selector in the pod's namespace, on nodes that have the labels of all such
constraints and pass its inclusion policies. It rejects a node whose domain, with this pod, would have more than
`maxSkew` pods above the least domain; the least is 0 while there are fewer than `minDomains` domains.
"""

from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.podindex import SelectedPods
from tonnage.cluster.podrules import Spread
from tonnage.cluster.task import Task
from tonnage.plugins.helpers.labeldomains import LabelDomains
from tonnage.plugins.helpers.nodeterms import counted_nodes

REASONS = ("TopologyLabelMissing", "TopologySpreadExceeded")
_MISSING, _EXCEEDED = 1, 2


class SpreadCounts(NamedTuple):
    """The pod counts of one constraint."""

    constraint: Spread
    domains: LabelDomains
    have: Array
    """Pods in the domain of each node."""
    least: int
    """Pods in the emptiest counted domain."""
    itself: int
    """1 if the pod matches its own constraint."""

    @property
    def exceeded(self) -> Array:
        """True for nodes whose domain would exceed the skew."""
        return np.asarray(self.have > np.float64(self.constraint.skew + self.least - self.itself))


class TopologySpread:
    """Rejects nodes in domains whose skew the pod would exceed."""

    reasons = REASONS

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        if task.rules is None or not task.rules.must_spread:
            return None
        codes = np.zeros(self._cluster.columns.size, np.uint8)
        # The first reason counts, so it is written last.
        for counts in reversed(self._constraints(task)):
            codes[counts.exceeded] = _EXCEEDED
            codes[~counts.domains.inside] = _MISSING
        return codes

    def message(self, task: Task, row: int, code: int) -> str:
        node = self._cluster.states[row].node
        for counts in self._constraints(task):
            topology, skew = counts.constraint.topology, counts.constraint.skew
            if code == _MISSING and topology not in node.labels:
                return f"{node.name}: has no label {topology}, over which the pod must be spread"
            if code == _EXCEEDED and counts.exceeded[row]:
                have, least, itself = int(counts.have[row]), counts.least, counts.itself
                pods = "1 such pod" if have == 1 else f"{have} such pods"
                return (
                    f"{node.name}: {topology}={node.labels.get(topology)} has {pods}; with this one the "
                    f"skew would be {have} + {itself} - {least} = {have + itself - least}, above {skew}"
                )
        return f"{node.name}: the pod must be spread otherwise"

    def _constraints(self, task: Task) -> list[SpreadCounts]:
        assert task.rules is not None
        constraints = task.rules.must_spread
        topologies = [LabelDomains(self._cluster, constraint.topology) for constraint in constraints]
        complete = np.logical_and.reduce([domains.inside for domains in topologies])
        return [
            self._counts(task, constraint, domains, complete)
            for constraint, domains in zip(constraints, topologies, strict=True)
        ]

    def _counts(self, task: Task, constraint: Spread, domains: LabelDomains, complete: Array) -> SpreadCounts:
        placed = self._cluster.placed
        meant = SelectedPods((constraint.selector,), staying=True)
        counted = counted_nodes(self._cluster, task, constraint)
        counted = complete if counted is None else complete & counted
        totals = domains.totals(placed.column(placed.counts(meant)) * counted)
        there = totals[domains.totals(counted) > 0]
        least = int(there.min()) if len(there) >= constraint.domains else 0
        itself = int(placed.selects(SelectedPods((constraint.selector,)), task))
        return SpreadCounts(constraint, domains, totals.take(domains.numbers), least, itself)
