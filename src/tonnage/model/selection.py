"""Node selection rules: selectors, affinity, topology spread, taints and tolerations, as data with their meaning.

The matching functions here are the definition, for one node at a time; plugins may evaluate the same rules over
columns. `podselector` has the selectors of rules about other pods.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tonnage.model.number import Int32


class Expression(msgspec.Struct, gc=False, frozen=True):
    """One requirement on a label or field."""

    key: str
    operator: str
    values: list[str] | None = None


class SelectorTerm(msgspec.Struct, gc=False, frozen=True):
    """Requirements that must all hold."""

    matchExpressions: list[Expression] | None = None
    matchFields: list[Expression] | None = None


class NodeSelector(msgspec.Struct, gc=False, frozen=True):
    """Terms of which at least one must hold."""

    nodeSelectorTerms: list[SelectorTerm] | None = None


class PreferredTerm(msgspec.Struct, gc=False, frozen=True):
    """A preferred term with its weight."""

    weight: Int32 = 0
    preference: SelectorTerm = SelectorTerm()


class NodeAffinity(msgspec.Struct, gc=False, frozen=True):
    """A pod's node affinity; only the required part filters nodes."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredTerm] | None = None


class LabelSelector(msgspec.Struct, gc=False, frozen=True):
    """Requirements on the labels of pods or namespaces that must all hold; an empty selector selects everything."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[Expression] | None = None


class PodAffinityTerm(msgspec.Struct, gc=False, frozen=True):
    """A selector of pods, and the node label whose values are the topology domains."""

    topologyKey: str = ""
    labelSelector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    mismatchLabelKeys: list[str] | None = None


class WeightedPodAffinityTerm(msgspec.Struct, gc=False, frozen=True):
    """A preferred term with its weight."""

    weight: Int32 = 0
    podAffinityTerm: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(msgspec.Struct, gc=False, frozen=True):
    """The pods that a pod must or would rather be near, or far from."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] | None = None


class TopologySpreadConstraint(msgspec.Struct, gc=False, frozen=True):
    """A limit on how unevenly pods may spread over topology domains."""

    maxSkew: Int32 = 0
    topologyKey: str = ""
    whenUnsatisfiable: str = "DoNotSchedule"
    labelSelector: LabelSelector | None = None
    minDomains: Int32 | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: list[str] | None = None


class Affinity(msgspec.Struct, gc=False, frozen=True):
    """A pod's affinity."""

    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class Taint(msgspec.Struct, gc=False, frozen=True):
    """A taint, which keeps pods off a node unless they tolerate it."""

    key: str
    effect: str = ""
    value: str | None = None


class Toleration(msgspec.Struct, gc=False, frozen=True):
    """A toleration, with which a pod ignores taints."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    tolerationSeconds: int | None = None
    """Decides nothing; an edited pod keeps it."""


OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
NODE_NAME_FIELD = "metadata.name"
KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that a cordoned node counts as having, so that pods that tolerate it may still run there."""


class SelectionError(ValueError):
    """A selector that Kubernetes would refuse."""


def integer(text: str | None) -> int | None:
    """The number in a label value, as Gt and Lt read it."""
    if text is None:
        return None
    body = text[1:] if text[:1] in "+-" else text
    return int(text) if body.isascii() and body.isdigit() and len(body) < 20 else None


def check(expression: Expression) -> None:
    """Raise SelectionError for an expression without meaning."""
    values = expression.values or []
    if expression.operator not in OPERATORS:
        raise SelectionError(f"operator {expression.operator!r} of {expression.key} is none of {', '.join(OPERATORS)}")
    if expression.operator in ("In", "NotIn") and not values:
        raise SelectionError(f"{expression.operator} on {expression.key} needs values")
    if expression.operator in ("Gt", "Lt") and (len(values) != 1 or integer(values[0]) is None):
        raise SelectionError(f"{expression.operator} on {expression.key} needs exactly one whole number")


def check_term(term: SelectorTerm) -> None:
    """Raise SelectionError for a node term without meaning."""
    for expression in (*(term.matchExpressions or ()), *(term.matchFields or ())):
        check(expression)
    for expression in term.matchFields or ():
        if expression.key != NODE_NAME_FIELD:
            raise SelectionError(f"matchFields knows {NODE_NAME_FIELD}, not {expression.key!r}")


def holds(expression: Expression, value: str | None) -> bool:
    """Whether a label's value, or its absence, meets the expression; an invalid expression is never met."""
    values = expression.values or []
    match expression.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if len(values) == 1:
            have, bound = integer(value), integer(values[0])
            if have is None or bound is None:
                return False
            return have > bound if expression.operator == "Gt" else have < bound
    return False


def term_holds(term: SelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node meets every requirement of a term; an empty term meets nothing."""
    if not term.matchExpressions and not term.matchFields:
        return False
    return all(holds(e, labels.get(e.key)) for e in term.matchExpressions or []) and all(
        holds(e, name if e.key == NODE_NAME_FIELD else None) for e in term.matchFields or []
    )


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(
        (not t.effect or t.effect == taint.effect)
        and (not t.key or t.key == taint.key)
        and (
            t.operator == "Exists"
            or ((t.operator or "Equal") == "Equal" and bool(t.key) and (t.value or "") == (taint.value or ""))
        )
        for t in tolerations
    )


def untolerated(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> Taint | None:
    """The first taint that keeps the pod away, if any."""
    for taint in taints:
        if taint.effect in KEEPS_PODS_AWAY and not tolerates(tolerations, taint):
            return taint
    return None
