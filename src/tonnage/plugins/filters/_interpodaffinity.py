"""Inter-pod affinity: required affinity and anti-affinity of a pod, and the anti-affinity of others to it.

A node meets a pod's affinity if, for each term, its domain runs a pod that matches all terms. If no such pod runs
anywhere, a pod that matches its own terms may be the first. Anti-affinity works both ways: placed pods keep matching
pods off their domains too.
"""

from collections.abc import Hashable

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.podindex import NodeCounts, SelectedPods
from tonnage.cluster.podrules import PodRules, PodTerm
from tonnage.cluster.task import Task
from tonnage.framework.points import UNCONCERNED
from tonnage.plugins.helpers.labeldomains import LabelDomains

REASONS = ("PodAffinityMismatch", "PodAntiAffinityConflict", "RepelledByAntiAffinity")
_APART, _TOGETHER, _REPELLED = 1, 2, 3
_NONE = np.int64(0)


class InterPodAffinity:
    """Rejects nodes where the pod's affinity is unmet, or where its own or a placed pod's anti-affinity matches."""

    reasons = REASONS

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._placed = cluster.placed
        self._repelling = cluster.placed.anti_affinity

    def key(self, task: Task) -> Hashable:
        """The key of a pod beside its own rules: the carried anti-affinity rules that match it."""
        if self._repelling:
            return self._repelling.about(task).numbers
        return UNCONCERNED if task.rules is None else ()

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        rules, codes = task.rules, None
        if rules is not None and (rules.affinity or rules.anti):
            codes = np.zeros(self._cluster.columns.size, np.uint8)
            # The first reason counts, so it is written last.
            for term in rules.anti:
                conflict = self._near(term, SelectedPods((term.selector,)))
                if conflict is not None:
                    codes[conflict] = _TOGETHER
            if rules.affinity:
                codes[~self._accepted(task, rules)] = _APART
        repelled = self._repelled(task)
        if repelled is None:
            return codes
        if codes is None:
            return repelled.astype(np.uint8) * np.uint8(_REPELLED)
        codes[repelled & (codes == 0)] = _REPELLED
        return codes

    def _near(self, term: PodTerm, meant: SelectedPods) -> Array | None:
        """True for nodes with a matching pod in their domain; nothing if no pod matches."""
        counts = self._placed.counts(meant)
        if not counts:
            return None
        return np.asarray(LabelDomains(self._cluster, term.topology).spread_out(self._placed.column(counts)) > _NONE)

    def _accepted(self, task: Task, rules: PodRules) -> Array:
        """True for nodes that meet the pod's affinity."""
        meant = SelectedPods(tuple([term.selector for term in rules.affinity]))
        near = [self._near(term, meant) for term in rules.affinity]
        found = [part for part in near if part is not None and part.any()]
        if len(found) == len(near):
            return np.asarray(np.logical_and.reduce(found))
        if found or not self._placed.selects(meant, task):
            return np.zeros(self._cluster.columns.size, np.bool_)
        inside = [LabelDomains(self._cluster, term.topology).inside for term in rules.affinity]
        return np.asarray(np.logical_and.reduce(inside))

    def _repelled(self, task: Task) -> Array | None:
        """True for nodes in a domain with a pod whose anti-affinity matches this one."""
        if not self._repelling:
            return None
        by_topology: dict[str, Array] = {}
        for carried, counts in self._repelling.about(task).terms:
            column, before = self._placed.column(counts), by_topology.get(carried.term.topology)
            by_topology[carried.term.topology] = column if before is None else before + column
        repelled: Array | None = None
        for topology, column in by_topology.items():
            here = LabelDomains(self._cluster, topology).spread_out(column) > _NONE
            repelled = here if repelled is None else repelled | here
        return repelled

    # -- messages

    def message(self, task: Task, row: int, code: int) -> str:
        name = self._cluster.states[row].name
        if code == _APART and task.rules is not None:
            return f"{name}: {self._why_apart(row, task.rules)}"
        if code == _TOGETHER and task.rules is not None:
            for term in task.rules.anti:
                meant = SelectedPods((term.selector,))
                there = self._first_near(row, term, self._placed.counts(meant))
                for other in self._pods(there):
                    if self._placed.selects(meant, other):
                        return f"{name}: {self._where(there, term, other)}, which the pod's anti-affinity excludes"
        for carried, counts in self._repelling.about(task).terms:
            there = self._first_near(row, carried.term, counts)
            for other in self._pods(there):
                if other.rules is not None and carried.term in other.rules.anti:
                    return f"{name}: {self._where(there, carried.term, other)}, whose anti-affinity excludes this pod"
        return f"{name}: anti-affinity excludes it"

    def _why_apart(self, row: int, rules: PodRules) -> str:
        labels = self._cluster.states[row].node.labels
        meant = SelectedPods(tuple([term.selector for term in rules.affinity]))
        near = [self._near(term, meant) for term in rules.affinity]
        for term, part in zip(rules.affinity, near, strict=True):
            if term.topology not in labels:
                return f"the node has no label {term.topology}, which the pod's affinity is about"
            if part is not None and part.any() and not part[row]:
                return f"none of the pods that the pod must be near runs in {term.topology}={labels[term.topology]}"
        return "none of the pods that the pod must be near runs anywhere, and the pod is not one of them itself"

    def _first_near(self, row: int, term: PodTerm, counts: NodeCounts) -> NodeState | None:
        """The first node in a node's domain with a counted pod."""
        numbers = LabelDomains(self._cluster, term.topology).numbers
        if not numbers[row]:
            return None
        rows = ((numbers == numbers[row]) & (self._placed.column(counts) > _NONE)).nonzero()[0]
        return self._cluster.states[rows[0]] if len(rows) else None

    def _pods(self, node: NodeState | None) -> list[Task]:
        spots = self._placed.pods
        return [] if node is None else [spots[key][0] for key in node.holdings if key in spots]

    @staticmethod
    def _where(node: NodeState | None, term: PodTerm, other: Task) -> str:
        assert node is not None
        return f"{term.topology}={node.node.labels.get(term.topology)} has {other.key} on {node.name}"
