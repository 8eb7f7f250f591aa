"""Pod rules: inter-pod affinity, topology spread, host ports and claims of one pod.

A pod's rules are read once, when the pod is first seen. An invalid rule is kept as a fault with its path. Terms
about other pods cost time at every decision and whenever the pod comes or goes: equal ones count once, and 64 at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tonnage.model.pod import Pod
from tonnage.model.podselector import NAMESPACE_NAME, PodSelector, requirements
from tonnage.model.selection import (
    Expression,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    SelectionError,
    TopologySpreadConstraint,
)
from tonnage.model.wire import comparable

AFFINITY, SPREAD = "affinity", "spread"
"""The kinds of faults."""
ANY_ADDRESS = "0.0.0.0"
HOSTNAME = "kubernetes.io/hostname"
HONOR, IGNORE = "Honor", "Ignore"
MUST, SHOULD = "DoNotSchedule", "ScheduleAnyway"
HARD_AFFINITY_WEIGHT = 1
"""The weight of required affinity of running pods in scores, as Kubernetes has it by default."""

MOST_TERMS = 64
"""How many different terms about other pods count of a pod; one with more must not be placed."""

_WEIGHTS = range(1, 101)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PodTerm(NamedTuple):
    """A selector of pods, and the node label whose values are the topology domains."""

    selector: PodSelector
    topology: str


class WeightedTerm(NamedTuple):
    """A preferred term with its weight, which is negative for anti-affinity."""

    term: PodTerm
    weight: int


class Spread(NamedTuple):
    """A topology spread constraint, ready for counting."""

    skew: int
    topology: str
    selector: PodSelector
    domains: int
    by_affinity: bool
    """Whether nodes count only if they match the pod's node affinity and selector."""
    by_taints: bool
    """Whether nodes with taints that the pod does not tolerate do not count."""


class HostPort(NamedTuple):
    """A host port."""

    protocol: str
    port: int
    address: str


class RuleFault(NamedTuple):
    """An invalid rule: its path in the pod, and what is wrong."""

    about: str
    path: str
    message: str


class PodRules:
    """The rules of one pod."""

    __slots__ = (
        "affinity",
        "anti",
        "asks_for_namespaces",
        "carried_anti",
        "carried_preferences",
        "claims",
        "faults",
        "key",
        "must_spread",
        "ports",
        "preferred",
        "should_spread",
    )

    def __init__(self, pod: Pod) -> None:
        self.faults: list[RuleFault] = []
        affinity = pod.spec.affinity
        near = affinity.podAffinity if affinity is not None else None
        far = affinity.podAntiAffinity if affinity is not None else None
        anti = tuple(dict.fromkeys(self._required(pod, far, "spec.affinity.podAntiAffinity")))
        affinity_terms = tuple(dict.fromkeys(self._required(pod, near, "spec.affinity.podAffinity")))
        preferred = (
            *_merged(self._preferred(pod, near, "spec.affinity.podAffinity", 1)),
            *_merged(self._preferred(pod, far, "spec.affinity.podAntiAffinity", -1)),
        )
        self._limit(len(anti) + len(affinity_terms) + len(preferred))
        self.anti = anti[:MOST_TERMS]
        self.affinity = affinity_terms[: MOST_TERMS - len(self.anti)]
        self.preferred = preferred[: MOST_TERMS - len(self.anti) - len(self.affinity)]
        self.carried_anti = tuple([WeightedTerm(term, 0) for term in self.anti])
        """The terms that keep other pods off once this pod has a node."""
        required = [WeightedTerm(term, HARD_AFFINITY_WEIGHT) for term in self.affinity]
        self.carried_preferences = (*required, *self.preferred)
        """The terms that count in scores of other pods once this pod has a node."""
        terms = (*self.affinity, *self.anti, *(weighted.term for weighted in self.preferred))
        self.asks_for_namespaces = any(e.key != NAMESPACE_NAME for term in terms for e in term.selector.chosen or ())
        """Whether a rule selects pods by labels of their namespaces."""
        constraints = pod.spec.topologySpreadConstraints or ()
        spreads = [(c.whenUnsatisfiable, self._spread(pod, c, number)) for number, c in enumerate(constraints)]
        self.must_spread = tuple([s for when, s in spreads if s is not None and when == MUST])
        self.should_spread = tuple([s for when, s in spreads if s is not None and when == SHOULD])
        self.ports = tuple(sorted(set(_host_ports(pod))))
        self.claims = tuple(_claims(pod))
        """The namespace and name of each claim among the pod's volumes."""
        about_pods = (pod.metadata.namespace, pod.metadata.labels, near, far, constraints)
        self.key = comparable((about_pods, self.ports, self.claims))
        """A text that is equal for pods whose rules allow the same nodes."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no rule after all, such as for container ports that are no host ports."""
        about_pods = self.affinity or self.anti or self.preferred or self.must_spread or self.should_spread
        return not (about_pods or self.ports or self.claims or self.faults)

    def _limit(self, terms: int) -> None:
        if terms > MOST_TERMS:
            message = f"the pod has {terms} different terms about other pods, and may have {MOST_TERMS}; remove some"
            self._fault(AFFINITY, "spec.affinity", message)

    def _fault(self, about: str, path: str, message: str) -> None:
        self.faults.append(RuleFault(about, path, message))

    def _required(self, pod: Pod, affinity: PodAffinity | None, path: str) -> Iterator[PodTerm]:
        terms = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
        for number, term in enumerate(terms or ()):
            found = self._term(pod, term, f"{path}.{_REQUIRED}[{number}]")
            if found is not None:
                yield found

    def _preferred(self, pod: Pod, affinity: PodAffinity | None, path: str, sign: int) -> Iterator[WeightedTerm]:
        terms = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
        for number, weighted in enumerate(terms or ()):
            place = f"{path}.{_PREFERRED}[{number}]"
            if weighted.weight not in _WEIGHTS:
                self._fault(AFFINITY, f"{place}.weight", f"weight {weighted.weight} is not from 1 to 100")
                continue
            found = self._term(pod, weighted.podAffinityTerm, f"{place}.podAffinityTerm")
            if found is not None:
                yield WeightedTerm(found, sign * weighted.weight)

    def _term(self, pod: Pod, term: PodAffinityTerm, path: str) -> PodTerm | None:
        if not term.topologyKey:
            self._fault(AFFINITY, f"{path}.topologyKey", "the topologyKey is empty; name a label of nodes")
            return None
        try:
            labels = _labels(pod, term.labelSelector, term.matchLabelKeys, term.mismatchLabelKeys)
            chosen = None if term.namespaceSelector is None else requirements(term.namespaceSelector)
        except SelectionError as error:
            self._fault(AFFINITY, path, str(error))
            return None
        named = term.namespaces or ([_namespace(pod)] if chosen is None else [])
        return PodTerm(PodSelector(named, labels, chosen), term.topologyKey)

    def _spread(self, pod: Pod, constraint: TopologySpreadConstraint, number: int) -> Spread | None:
        path = f"spec.topologySpreadConstraints[{number}]"
        for field, wrong, message in _spread_faults(constraint):
            if wrong:
                self._fault(SPREAD, f"{path}.{field}", message)
                return None
        try:
            labels = _labels(pod, constraint.labelSelector, constraint.matchLabelKeys, None)
        except SelectionError as error:
            self._fault(SPREAD, path, str(error))
            return None
        return Spread(
            constraint.maxSkew,
            constraint.topologyKey,
            PodSelector([_namespace(pod)], labels),
            constraint.minDomains or 1,
            (constraint.nodeAffinityPolicy or HONOR) == HONOR,
            (constraint.nodeTaintsPolicy or IGNORE) == HONOR,
        )


def pod_rules(pod: Pod) -> PodRules | None:
    """A pod's rules; nothing if it has none."""
    spec = pod.spec
    affinity = spec.affinity
    if (
        (affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None))
        or spec.topologySpreadConstraints
        or (spec.volumes and any(v.persistentVolumeClaim or v.ephemeral for v in spec.volumes))
        or any(c.ports for c in spec.containers)
        or (spec.initContainers and any(c.ports for c in spec.initContainers))
    ):
        rules = PodRules(pod)
        return None if rules.is_empty else rules
    return None


def _merged(preferred: Iterable[WeightedTerm]) -> Iterator[WeightedTerm]:
    """The terms, equal ones as one with the sum of their weights."""
    weights: dict[PodTerm, int] = {}
    for term, weight in preferred:
        weights[term] = weights.get(term, 0) + weight
    return (WeightedTerm(term, weight) for term, weight in weights.items())


def _namespace(pod: Pod) -> str:
    return pod.metadata.namespace or "default"


def _labels(
    pod: Pod, selector: LabelSelector | None, same: Sequence[str] | None, other: Sequence[str] | None
) -> tuple[Expression, ...] | None:
    """The requirements on other pods' labels, including matchLabelKeys and mismatchLabelKeys; None selects no pod."""
    if selector is None:
        if same or other:
            raise SelectionError("matchLabelKeys and mismatchLabelKeys need a labelSelector")
        return None
    twice = set(same or ()) & set(other or ())
    if twice:
        raise SelectionError(f"{sorted(twice)[0]} is in both matchLabelKeys and mismatchLabelKeys")
    own = pod.labels
    return (
        *requirements(selector),
        *(Expression(key, "In", [own[key]]) for key in same or () if key in own),
        *(Expression(key, "NotIn", [own[key]]) for key in other or () if key in own),
    )


def _spread_faults(constraint: TopologySpreadConstraint) -> Iterator[tuple[str, bool, str]]:
    """Fields of a spread constraint, whether each is wrong, and the message if it is."""
    when, domains = constraint.whenUnsatisfiable, constraint.minDomains
    yield "topologyKey", not constraint.topologyKey, "the topologyKey is empty; name a label of nodes"
    yield "maxSkew", constraint.maxSkew < 1, f"maxSkew {constraint.maxSkew} is not above 0"
    yield "whenUnsatisfiable", when not in (MUST, SHOULD), f"whenUnsatisfiable {when!r} is neither {MUST} nor {SHOULD}"
    yield "minDomains", domains is not None and domains < 1, f"minDomains {domains} is not above 0"
    yield "minDomains", domains is not None and when == SHOULD, f"minDomains goes with {MUST} only"
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = getattr(constraint, field)
        yield field, policy not in (None, HONOR, IGNORE), f"{field} {policy!r} is neither {HONOR} nor {IGNORE}"


def _host_ports(pod: Pod) -> Iterator[HostPort]:
    """The host ports of containers and sidecars; init containers end before these start."""
    spec = pod.spec
    for container in (*spec.containers, *(c for c in spec.initContainers or () if c.is_sidecar)):
        for port in container.ports or ():
            number = port.hostPort or (port.containerPort if spec.hostNetwork else 0)
            if number > 0:
                yield HostPort(port.protocol or "TCP", number, port.hostIP or ANY_ADDRESS)


def _claims(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes or ():
        if volume.persistentVolumeClaim is not None:
            yield f"{_namespace(pod)}/{volume.persistentVolumeClaim.claimName}"
        elif volume.ephemeral is not None:
            yield f"{_namespace(pod)}/{pod.metadata.name}-{volume.name}"
