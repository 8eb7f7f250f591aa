"""Pod selectors: the pods that a rule about other pods selects, whatever node they are on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tonnage.model.selection import Expression, LabelSelector, SelectionError, check, holds
from tonnage.model.wire import comparable

LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label with the namespace's own name, which every namespace has."""


def requirements(selector: LabelSelector) -> tuple[Expression, ...]:
    """A selector as expressions; SelectionError if Kubernetes would refuse it."""
    found = [Expression(key, "In", [value]) for key, value in sorted((selector.matchLabels or {}).items())]
    for expression in selector.matchExpressions or ():
        if expression.operator not in LABEL_OPERATORS:
            raise SelectionError(
                f"operator {expression.operator!r} of {expression.key} is none of {', '.join(LABEL_OPERATORS)}"
            )
        check(expression)
        if expression.operator in ("Exists", "DoesNotExist") and expression.values:
            raise SelectionError(f"{expression.operator} on {expression.key} takes no values")
        found.append(expression)
    return tuple(found)


def meets(labels: Mapping[str, str], wanted: Iterable[Expression]) -> bool:
    """Whether labels meet every requirement."""
    return all(holds(expression, labels.get(expression.key)) for expression in wanted)


class PodSelector:
    """Pods by namespace and labels; selectors of the same meaning are equal."""

    __slots__ = ("_hash", "chosen", "key", "labels", "namespaces")

    def __init__(
        self,
        namespaces: Sequence[str],
        labels: tuple[Expression, ...] | None,
        chosen: tuple[Expression, ...] | None = None,
    ) -> None:
        self.namespaces = frozenset(namespaces)
        self.labels = labels
        """The requirements on labels of pods: empty for all pods, None for no pod at all."""
        self.chosen = chosen
        """The requirements on labels of further namespaces: empty for all namespaces, None for none of them."""
        self.key = comparable((sorted(self.namespaces), labels, chosen))
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodSelector) and self.key == other.key

    def matches(self, namespace: str, labels: Mapping[str, str], known: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether the selector selects a pod; `known` has the labels of namespaces."""
        if self.labels is None or not meets(labels, self.labels):
            return False
        return namespace in self.namespaces or (self.chosen is not None and self._chooses(namespace, known))

    def _chooses(self, namespace: str, known: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether a namespace meets the requirements; a namespace that is not known has only its name as a label."""
        assert self.chosen is not None
        labels = known.get(namespace)
        if labels is None and any(expression.key != NAMESPACE_NAME for expression in self.chosen):
            return False
        return meets({**(labels or {}), NAMESPACE_NAME: namespace}, self.chosen)

    def anchors(self) -> Iterator[tuple[str, str]]:
        """Labels of which a selected pod has at least one; nothing if any pod may be selected."""
        for expression in self.labels or ():
            if expression.operator == "In":
                for value in dict.fromkeys(expression.values or ()):
                    yield expression.key, value
                return
