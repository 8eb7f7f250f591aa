"""Node preferences of a pod: preferred node affinity, and PreferNoSchedule taints.

Both scores count something for every node and are then normalized to the highest count among the nodes that the pod
fits on.
"""

from collections.abc import Hashable, Iterator

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Task
from tonnage.framework.points import UNCONCERNED
from tonnage.framework.session import Session
from tonnage.model.problem import Problem
from tonnage.model.selection import PreferredTerm, SelectionError, check_term, tolerates
from tonnage.plugins.helpers.nodeterms import meeting_any

HIGHEST = 100
_LARGEST_WEIGHT = 100
"""The largest weight of a preferred term; Kubernetes rejects larger ones."""
_PREFER = "PreferNoSchedule"
_FIELD = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinityScore:
    """NodeAffinity: the weights of the preferred terms that a node matches."""

    def __init__(self, session: Session, weight: int) -> None:
        self._session = session
        self._weight = float(weight)

    @staticmethod
    def key(task: Task) -> Hashable:
        """Everything that the scores depend on."""
        affinity = task.pod.spec.affinity
        return UNCONCERNED if affinity is None or affinity.nodeAffinity is None else task.selection

    def evaluate(self, task: Task, nodes: Nodes) -> Array | None:
        result: Array | None = None
        for term in self._terms(task):
            part = meeting_any(self._session.cluster, [term.preference], nodes) * np.int64(term.weight)
            result = part if result is None else result + part
        return result

    def reduce(self, task: Task, counts: Array, fits: Array) -> Array:
        return fitted(counts, fits) * self._weight

    def _terms(self, task: Task) -> Iterator[PreferredTerm]:
        """The valid terms; an invalid one is reported and counts nothing."""
        affinity = task.pod.spec.affinity
        node_affinity = affinity.nodeAffinity if affinity is not None else None
        terms = node_affinity.preferredDuringSchedulingIgnoredDuringExecution if node_affinity is not None else None
        for number, term in enumerate(terms or ()):
            try:
                if not 0 <= term.weight <= _LARGEST_WEIGHT:
                    raise SelectionError(f"weight {term.weight} is not from 1 to {_LARGEST_WEIGHT}")
                check_term(term.preference)
            except SelectionError as error:
                expected, message = "a weight and a term that can be met", f"{error}; the term counts nothing"
                self._session.report(Problem(f"Pod/{task.key}", f"{_FIELD}[{number}]", "", expected, message))
                continue
            if term.weight:
                yield term


class TaintScore:
    """TaintToleration: the fewer PreferNoSchedule taints a node has that the pod does not tolerate, the better."""

    def __init__(self, cluster: Cluster, weight: int) -> None:
        self._cluster = cluster
        self._weight = float(weight)
        self.without_taints = HIGHEST * self._weight
        """The score of every node if there are no such taints."""
        self._known: Memo[bytes, tuple[int, Array | None]] = Memo()

    def evaluate(self, task: Task, nodes: Nodes) -> Array | None:
        counts = self._counts(task)
        return None if counts is None else counts.take(nodes.pick(self._cluster.columns.taints))

    def reduce(self, task: Task, counts: Array, fits: Array) -> Array:
        return (HIGHEST - fitted(counts, fits)) * self._weight

    def _counts(self, task: Task) -> Array | None:
        """The untolerated PreferNoSchedule taints of each set of taints; nothing if there are none."""
        sets = self._cluster.labels.taint_sets
        known = self._known.get(task.selection)
        if known is not None and known[0] == len(sets):
            return known[1]
        tolerations = task.pod.spec.tolerations or ()
        counts = np.array(
            [sum(t.effect == _PREFER and not tolerates(tolerations, t) for t in taints) for taints in sets], np.int64
        )
        return self._known.keep(task.selection, (len(sets), counts if counts.any() else None))[1]


def fitted(counts: Array, fits: Array) -> Array:
    """Counts as integer percentages of the highest among the nodes that the pod fits on."""
    highest = np.maximum(counts[fits].max(initial=0), 1)
    result: Array = np.minimum(counts, highest) * HIGHEST // highest
    return result
