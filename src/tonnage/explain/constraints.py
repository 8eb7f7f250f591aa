"""Constraints of a pod that could be left out one by one: lists of cards, selectors, affinities, taints, spreading."""

from collections.abc import Iterator
from typing import NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.topologyconstraint import KAI_REQUIRED
from tonnage.cluster.task import Task
from tonnage.explain.edits import PodEdit
from tonnage.model.annotations import TOPOLOGY_REQUIRED
from tonnage.model.selection import KEEPS_PODS_AWAY, Taint, Toleration, tolerates

_BY_KUBERNETES = "node.kubernetes.io/"
"""Taints that Kubernetes itself sets: a pod that tolerates them runs on a node with a fault."""
_MOST_TAINTS = 8


class ConstraintEdit(NamedTuple):
    """An edit that leaves one constraint out, and what it does in words."""

    edit: PodEdit
    text: str


def constraints_of(cluster: Cluster, task: Task) -> Iterator[ConstraintEdit]:
    """The constraints of a pod."""
    pod, spec = task.pod, task.pod.spec
    for key, value in task.constraints:
        yield ConstraintEdit(PodEdit(annotations=(key,)), f"without the annotation {key}: {value}")
    for key in (TOPOLOGY_REQUIRED, KAI_REQUIRED):
        if key in pod.annotations:
            text = f"in more than one {pod.annotations[key]}, without the annotation {key}"
            yield ConstraintEdit(PodEdit(annotations=(key,)), text)
    for key, value in (spec.nodeSelector or {}).items():
        yield ConstraintEdit(PodEdit(selector=(key,)), f"without the node selector {key}: {value}")
    for part, text in (
        ("nodeAffinity", "the required node affinity"),
        ("podAffinity", "the required pod affinity"),
        ("podAntiAffinity", "the required pod anti-affinity"),
    ):
        found = getattr(spec.affinity, part) if spec.affinity is not None else None
        if found is not None and found.requiredDuringSchedulingIgnoredDuringExecution:
            yield ConstraintEdit(PodEdit(without_affinity=part), f"without {text}")
    for key in dict.fromkeys([one.topologyKey for one in spec.topologySpreadConstraints or ()]):
        yield ConstraintEdit(PodEdit(without_spread=key), f"without being spread over {key}")
    yield from _tolerations(cluster, task)


def _tolerations(cluster: Cluster, task: Task) -> Iterator[ConstraintEdit]:
    """A toleration for each set of taints that the pod does not tolerate."""
    known: set[tuple[Taint, ...]] = set()
    own = task.pod.spec.tolerations or []
    for state in cluster.states:
        taints = [one for one in state.node.spec.taints or () if one.effect in KEEPS_PODS_AWAY]
        missing = tuple([one for one in taints if not tolerates(own, one)])
        if not missing or missing in known or any(one.key.startswith(_BY_KUBERNETES) for one in missing):
            continue
        known.add(missing)
        if len(known) > _MOST_TAINTS:
            return
        added = tuple(
            [Toleration(key=one.key, operator="Equal", value=one.value, effect=one.effect) for one in missing]
        )
        named = ", ".join(f"{one.key}={one.value}" if one.value else one.key for one in missing)
        yield ConstraintEdit(PodEdit(tolerations=added), f"with a toleration of the taint {named}, if it may run there")
