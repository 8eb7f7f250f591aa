"""Words for pods with rules about other pods, and a naive recount of what those rules allow.

The recount goes over all pods for every node, one rule after the other, as Kubernetes documents them; it shares little
but the data types with the engine.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeSpec, NodeStatus
from tonnage.model.pod import Container, ContainerPort, Pod, PodSpec, ReportedPodStatus, ResourceRequirements
from tonnage.model.selection import (
    Affinity,
    Expression,
    LabelSelector,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    SelectorTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    term_holds,
    untolerated,
)
from tonnage.model.storage import ClaimSource, EphemeralSource, PodVolume

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def zoned(name: str, zone: str | None = None, *, taints: list[object] | None = None, **labels: str) -> Node:
    """A node with a host name, in a zone if one is given."""
    where = {} if zone is None else {ZONE: zone}
    offers: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    return Node(
        ObjectMeta(name, labels={HOST: name, **where, **labels}),
        NodeSpec(taints=taints),  # type: ignore[arg-type]
        NodeStatus(allocatable=offers),
    )


def app(name: str) -> LabelSelector:
    return LabelSelector({"app": name})


def term(topology: str = HOST, selector: LabelSelector | str | None = "web", **more: object) -> PodAffinityTerm:
    """Pods of an app, or of a selector, in the same domain."""
    chosen = app(selector) if isinstance(selector, str) else selector
    return PodAffinityTerm(topology, chosen, **more)  # type: ignore[arg-type]


def wish(weight: int, wanted: PodAffinityTerm) -> WeightedPodAffinityTerm:
    return WeightedPodAffinityTerm(weight, wanted)


def spread(skew: int = 1, topology: str = ZONE, selector: LabelSelector | str | None = "web", **more: object):
    """A constraint over the pods of an app, or of a selector."""
    chosen = app(selector) if isinstance(selector, str) else selector
    return TopologySpreadConstraint(skew, topology, labelSelector=chosen, **more)  # type: ignore[arg-type]


def labelled(
    name: str,
    app: str | None = "web",
    *,
    on: str | None = None,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    near: Sequence[PodAffinityTerm] = (),
    far: Sequence[PodAffinityTerm] = (),
    likes: Sequence[WeightedPodAffinityTerm] = (),
    dislikes: Sequence[WeightedPodAffinityTerm] = (),
    spread: Sequence[TopologySpreadConstraint] = (),
    ports: Sequence[ContainerPort] = (),
    sidecar_ports: Sequence[ContainerPort] = (),
    init_ports: Sequence[ContainerPort] = (),
    claims: Sequence[str] = (),
    ephemeral: Sequence[str] = (),
    selector: dict[str, str] | None = None,
    node_affinity: NodeAffinity | None = None,
    tolerations: list[Toleration] | None = None,
    leaving: bool = False,
    host_network: bool = False,
    **limits: int | str,
) -> Pod:
    """A pod of an app with rules about neighbours, ports and volumes, and with limits if they are given."""
    affinity = Affinity(
        node_affinity,
        PodAffinity(list(near), list(likes)) if near or likes else None,
        PodAffinity(list(far), list(dislikes)) if far or dislikes else None,
    )
    inits = [Container("sidecar", restartPolicy="Always", ports=list(sidecar_ports))] if sidecar_ports else []
    inits += [Container("init", ports=list(init_ports))] if init_ports else []
    volumes = [PodVolume(f"v{number}", ClaimSource(claim)) for number, claim in enumerate(claims)]
    volumes += [PodVolume(volume, ephemeral=EphemeralSource()) for volume in ephemeral]
    marks = {**({"app": app} if app is not None else {}), **(labels or {})}
    return Pod(
        ObjectMeta(
            name=name,
            namespace=namespace,
            labels=marks or None,
            deletionTimestamp="2026-01-01T00:00:00Z" if leaving else None,
        ),
        PodSpec(
            containers=[
                Container("main", ResourceRequirements(limits=dict(limits) or None), ports=list(ports) or None)
            ],
            initContainers=inits or None,
            nodeName=on,
            nodeSelector=selector,
            affinity=affinity if affinity != Affinity() else None,
            tolerations=tolerations,
            topologySpreadConstraints=list(spread) or None,
            volumes=volumes or None,
            hostNetwork=host_network or None,
        ),
        ReportedPodStatus("Running" if on else "Pending"),
    )


# -- the recount


class World(NamedTuple):
    """Nodes by name, pods with their nodes, and the labels of namespaces."""

    nodes: dict[str, Node]
    pods: list[tuple[Pod, str]]
    namespaces: dict[str, dict[str, str]]

    def of_known_nodes(self) -> list[tuple[Pod, Node]]:
        return [(pod, self.nodes[name]) for pod, name in self.pods if name in self.nodes]


def _operator(expression: Expression, labels: Mapping[str, str]) -> bool:
    values = expression.values or []
    have = expression.key in labels
    if expression.operator == "In":
        return have and labels[expression.key] in values
    if expression.operator == "NotIn":
        return not have or labels[expression.key] not in values
    return have == (expression.operator == "Exists")


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in (selector.matchLabels or {}).items()) and all(
        _operator(expression, labels) for expression in selector.matchExpressions or ()
    )


def _means(world: World, owner: Pod, wanted: PodAffinityTerm, other: Pod) -> bool:
    """Whether a term of one pod means another."""
    home, there = owner.metadata.namespace or "default", other.metadata.namespace or "default"
    if wanted.namespaces or wanted.namespaceSelector is not None:
        chosen = there in (wanted.namespaces or ())
        if wanted.namespaceSelector is not None and not chosen:
            known = there in world.namespaces or not (
                wanted.namespaceSelector.matchLabels or wanted.namespaceSelector.matchExpressions
            )
            chosen = known and _selects(wanted.namespaceSelector, world.namespaces.get(there, {}))
    else:
        chosen = there == home
    same = all(other.labels.get(key) == owner.labels[key] for key in wanted.matchLabelKeys or () if key in owner.labels)
    unlike = all(
        other.labels.get(key) != owner.labels[key] for key in wanted.mismatchLabelKeys or () if key in owner.labels
    )
    return chosen and same and unlike and _selects(wanted.labelSelector, other.labels)


def _required(affinity: PodAffinity | None) -> list[PodAffinityTerm]:
    return list((affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None) or ())


def _preferred(affinity: PodAffinity | None) -> list[WeightedPodAffinityTerm]:
    return list((affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else None) or ())


def _near(pod: Pod) -> PodAffinity | None:
    return pod.spec.affinity.podAffinity if pod.spec.affinity else None


def _far(pod: Pod) -> PodAffinity | None:
    return pod.spec.affinity.podAntiAffinity if pod.spec.affinity else None


def _shares(one: Node, other: Node, topology: str) -> bool:
    return topology in one.labels and one.labels[topology] == other.labels.get(topology)


def _port_conflict(world: World, pod: Pod, node: Node) -> bool:
    def ports(of: Pod) -> Iterable[tuple[str, int, str]]:
        sidecars = [c for c in of.spec.initContainers or () if c.restartPolicy == "Always"]
        for container in [*of.spec.containers, *sidecars]:
            for port in container.ports or ():
                if port.hostPort:
                    yield port.protocol or "TCP", port.hostPort, port.hostIP or "0.0.0.0"

    used = [port for other, there in world.of_known_nodes() if there.name == node.name for port in ports(other)]
    return any(
        (protocol, number) == (used_protocol, used_number)
        and (address == used_address or "0.0.0.0" in (address, used_address))
        for protocol, number, address in ports(pod)
        for used_protocol, used_number, used_address in used
    )


def _affinity_fails(world: World, pod: Pod, node: Node) -> bool:
    terms = _required(_near(pod))
    if not terms:
        return False
    if any(t.topologyKey not in node.labels for t in terms):
        return True
    group = [(o, n) for o, n in world.of_known_nodes() if all(_means(world, pod, t, o) for t in terms)]
    if all(any(_shares(node, there, t.topologyKey) for _, there in group) for t in terms):
        return False
    nobody = not any(t.topologyKey in there.labels for _, there in group for t in terms)
    return not (nobody and all(_means(world, pod, t, pod) for t in terms))


def _anti_affinity_fails(world: World, pod: Pod, node: Node) -> bool:
    return any(
        _means(world, pod, t, other) and _shares(node, there, t.topologyKey)
        for t in _required(_far(pod))
        for other, there in world.of_known_nodes()
    )


def _is_repelled(world: World, pod: Pod, node: Node) -> bool:
    return any(
        _means(world, other, t, pod) and _shares(node, there, t.topologyKey)
        for other, there in world.of_known_nodes()
        for t in _required(_far(other))
    )


def is_selected(pod: Pod, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in (pod.spec.nodeSelector or {}).items()):
        return False
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    terms: list[SelectorTerm] | None = None if required is None else required.nodeSelectorTerms or []
    return terms is None or any(term_holds(t, node.labels, node.name) for t in terms)


def is_tolerated(pod: Pod, node: Node) -> bool:
    return untolerated(pod.spec.tolerations or (), node.spec.taints or ()) is None


def _counts(pod: Pod, constraint: TopologySpreadConstraint, node: Node) -> bool:
    if constraint.nodeAffinityPolicy != "Ignore" and not is_selected(pod, node):
        return False
    return constraint.nodeTaintsPolicy != "Honor" or is_tolerated(pod, node)


def _alike(pod: Pod, constraint: TopologySpreadConstraint) -> Callable[[Pod], bool]:
    """Whether a pod is one of those that a constraint counts."""

    def check(other: Pod) -> bool:
        keys = [key for key in constraint.matchLabelKeys or () if key in pod.labels]
        return (
            (other.metadata.namespace or "default") == (pod.metadata.namespace or "default")
            and _selects(constraint.labelSelector, other.labels)
            and all(other.labels.get(key) == pod.labels[key] for key in keys)
        )

    return check


def _constraints(pod: Pod, when: str) -> list[TopologySpreadConstraint]:
    return [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == when]


def _spread_fails(world: World, pod: Pod, node: Node) -> str:
    hard = _constraints(pod, "DoNotSchedule")
    complete = [n for n in world.nodes.values() if all(c.topologyKey in n.labels for c in hard)]
    for constraint in hard:
        if constraint.topologyKey not in node.labels:
            return "TopologyLabelMissing"
        alike = _alike(pod, constraint)
        counts = {n.labels[constraint.topologyKey]: 0 for n in complete if _counts(pod, constraint, n)}
        for other, there in world.of_known_nodes():
            if not other.is_leaving and alike(other) and there in complete and _counts(pod, constraint, there):
                counts[there.labels[constraint.topologyKey]] += 1
        least = min(counts.values()) if len(counts) >= (constraint.minDomains or 1) else 0
        if counts.get(node.labels[constraint.topologyKey], 0) + alike(pod) - least > constraint.maxSkew:
            return "TopologySpreadExceeded"
    return ""


def reason(world: World, pod: Pod, node: Node) -> str:
    """Why a node will not do because of ports and other pods; empty if it will."""
    if _port_conflict(world, pod, node):
        return "HostPortConflict"
    if _affinity_fails(world, pod, node):
        return "PodAffinityMismatch"
    if _anti_affinity_fails(world, pod, node):
        return "PodAntiAffinityConflict"
    if _is_repelled(world, pod, node):
        return "RepelledByAntiAffinity"
    return _spread_fails(world, pod, node)


def affinity_scores(world: World, pod: Pod, fits: Sequence[str]) -> dict[str, int]:
    """Preferred pod affinity as Kubernetes scores it, for the nodes that the pod fits on."""

    def total(node: Node) -> int:
        points = 0
        for other, there in world.of_known_nodes():
            pulls = [(w.weight, w.podAffinityTerm, pod, other) for w in _preferred(_near(pod))]
            pulls += [(-w.weight, w.podAffinityTerm, pod, other) for w in _preferred(_far(pod))]
            pulls += [(1, t, other, pod) for t in _required(_near(other))]
            pulls += [(w.weight, w.podAffinityTerm, other, pod) for w in _preferred(_near(other))]
            pulls += [(-w.weight, w.podAffinityTerm, other, pod) for w in _preferred(_far(other))]
            for weight, wanted, owner, meant in pulls:
                if _means(world, owner, wanted, meant) and _shares(node, there, wanted.topologyKey):
                    points += weight
        return points

    points = {name: total(world.nodes[name]) for name in fits}
    low, high = min(points.values(), default=0), max(points.values(), default=0)
    return {n: int(100.0 * (float(p - low) / float(high - low))) if high > low else 0 for n, p in points.items()}


def spread_scores(world: World, pod: Pod, fits: Sequence[str]) -> dict[str, int]:
    """Wished-for spread as Kubernetes scores it, for the nodes that the pod fits on."""
    soft = _constraints(pod, "ScheduleAnyway")
    complete = {n.name for n in world.nodes.values() if all(c.topologyKey in n.labels for c in soft)}
    scored = [name for name in fits if name in complete]
    costs = dict.fromkeys(scored, 0.0)
    for constraint in soft:
        key, alike = constraint.topologyKey, _alike(pod, constraint)
        domains = {world.nodes[name].labels[key] for name in scored}
        size = len(scored) if key == HOST else len(domains)
        for name in scored:
            node, count = world.nodes[name], 0
            for other, there in world.of_known_nodes():
                if other.is_leaving or not alike(other):
                    continue
                if key == HOST:
                    count += there.name == name
                elif there.name in complete and _counts(pod, constraint, there):
                    count += there.labels[key] == node.labels[key]
            costs[name] += count * math.log(size + 2) + (constraint.maxSkew - 1)
    whole = {name: math.floor(cost + 0.5) for name, cost in costs.items()}
    low, high = min(whole.values(), default=0), max(whole.values(), default=0)
    result = dict.fromkeys(fits, 0)
    for name, cost in whole.items():
        result[name] = 100 if high == 0 else 100 * (high + low - cost) // high
    return result
