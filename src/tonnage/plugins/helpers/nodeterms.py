"""Node selection terms evaluated over all nodes at once."""

from collections.abc import Iterable, Sequence

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.labels import NODE_NAME
from tonnage.cluster.podrules import Spread
from tonnage.cluster.task import Task
from tonnage.model.selection import Expression, SelectorTerm, Toleration, untolerated
from tonnage.model.storage import PersistentVolume


def required_terms(task: Task) -> list[SelectorTerm] | None:
    """The terms of the required node affinity; nothing if the pod has none."""
    affinity = task.pod.spec.affinity
    node_affinity = affinity.nodeAffinity if affinity is not None else None
    required = node_affinity.requiredDuringSchedulingIgnoredDuringExecution if node_affinity is not None else None
    return None if required is None else required.nodeSelectorTerms or []


def selected_nodes(cluster: Cluster, task: Task, nodes: Nodes) -> Array | None:
    """True where the pod's node selector and required node affinity match; nothing if it has neither."""
    wanted = [Expression(key, "In", [value]) for key, value in (task.pod.spec.nodeSelector or {}).items()]
    selected = meeting_all(cluster, wanted, nodes) if wanted else None
    terms = required_terms(task)
    if terms is not None:
        matching = meeting_any(cluster, terms, nodes)
        selected = matching if selected is None else selected & matching
    return selected


def meeting_any(cluster: Cluster, terms: Iterable[SelectorTerm], nodes: Nodes) -> Array:
    """True where at least one term matches; an empty term matches no node."""
    matching = np.zeros(len(nodes), np.bool_)
    for term in terms:
        fields = [Expression(NODE_NAME, e.operator, e.values) for e in term.matchFields or ()]
        expressions = [*(term.matchExpressions or ()), *fields]
        if expressions:
            matching |= meeting_all(cluster, expressions, nodes)
    return matching


def meeting_all(cluster: Cluster, expressions: Sequence[Expression], nodes: Nodes) -> Array:
    """True where every expression matches."""
    result = np.ones(len(nodes), np.bool_)
    for expression in expressions:
        column = cluster.label(expression.key)
        result &= column.where(expression, nodes.pick(column.ids))
    return result


def reaching_nodes(cluster: Cluster, volume: PersistentVolume, nodes: Nodes) -> Array:
    """True for nodes that meet a volume's node affinity."""
    affinity = volume.spec.nodeAffinity
    if affinity is None or affinity.required is None:
        return np.ones(len(nodes), np.bool_)
    return meeting_any(cluster, affinity.required.nodeSelectorTerms or (), nodes)


def tolerated_nodes(cluster: Cluster, tolerations: Sequence[Toleration], nodes: Nodes) -> Array:
    """True where the tolerations cover every taint."""
    fine = np.array([untolerated(tolerations, taints) is None for taints in cluster.labels.taint_sets], np.bool_)
    return fine.take(nodes.pick(cluster.columns.taints))


def counted_nodes(cluster: Cluster, task: Task, constraint: Spread) -> Array | None:
    """True for nodes whose pods a spread constraint counts; nothing if its policies count all nodes."""
    nodes = Nodes(cluster.columns)
    counted = selected_nodes(cluster, task, nodes) if constraint.by_affinity else None
    if constraint.by_taints:
        tolerated = tolerated_nodes(cluster, task.pod.spec.tolerations or (), nodes)
        counted = tolerated if counted is None else counted & tolerated
    return counted
