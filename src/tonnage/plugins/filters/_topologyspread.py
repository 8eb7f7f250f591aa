"""Spread constraints that must be met: no domain may have too many pods more than the emptiest one.

Counted are the pods of the constraint's selector in the pod's namespace, on nodes that have the labels of all such
constraints and that the constraint's policies let count. A node is turned down if its domain, with this pod, would have
more than `maxSkew` pods above the least; that is 0 while there are fewer than `minDomains` domains.
"""

from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.podindex import SelectedPods
from tonnage.cluster.podrules import Spread
from tonnage.cluster.task import Task
from tonnage.plugins.helpers.labeldomains import LabelDomains
from tonnage.plugins.helpers.nodeterms import selected_nodes, tolerated_nodes

REASONS = ("TopologyLabelMissing", "TopologySpreadExceeded")
_MISSING, _EXCEEDED = 1, 2


class SpreadCounts(NamedTuple):
    """How things stand with one constraint."""

    constraint: Spread
    domains: LabelDomains
    have: Array
    """Pods in the domain of each node."""
    least: int
    """Pods in the emptiest domain that counts."""
    itself: int
    """1 if the pod counts itself."""

    @property
    def exceeded(self) -> Array:
        """True for nodes whose domain would have too many."""
        return np.asarray(self.have > np.float64(self.constraint.skew + self.least - self.itself))


class TopologySpread:
    """Keeps pods off domains that have more than their share."""

    reasons = REASONS

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        if task.rules is None or not task.rules.must_spread:
            return None
        codes = np.zeros(self._cluster.columns.size, np.uint8)
        # What is said first counts, so it is written last.
        for counts in reversed(self._standings(task)):
            codes[counts.exceeded] = _EXCEEDED
            codes[~counts.domains.inside] = _MISSING
        return codes

    def sentence(self, task: Task, row: int, code: int) -> str:
        node = self._cluster.states[row].node
        for counts in self._standings(task):
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

    def _standings(self, task: Task) -> list[SpreadCounts]:
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


def counted_nodes(cluster: Cluster, task: Task, constraint: Spread) -> Array | None:
    """True for the nodes whose pods a constraint counts; nothing if its policies let all of them count."""
    nodes = Nodes(cluster.columns)
    counted = selected_nodes(cluster, task, nodes) if constraint.by_affinity else None
    if constraint.by_taints:
        tolerated = tolerated_nodes(cluster, task.pod.spec.tolerations or (), nodes)
        counted = tolerated if counted is None else counted & tolerated
    return counted
