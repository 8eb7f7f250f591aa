"""Expressions in CEL about annotations and labels, from which the policies are put together."""

from collections.abc import Sequence

from tonnage.kube.cel import listed, quoted
from tonnage.policies.keys import ANY_ENDING

ANNOTATIONS, ANNOTATIONS_BEFORE = "annotations", "annotationsBefore"
LABELS, LABELS_BEFORE = "labels", "labelsBefore"
MOST_KEYS = 500
"""Annotations, and labels, that an author may give an object.

The API server takes time with the square of their number for an expression that goes through all of them.
"""
_MOST_SEEN = 2 * MOST_KEYS
"""Above this number no expression goes through them."""
METADATA_CHANGES = "request.operation == 'CREATE' || " + " || ".join(
    f"object.metadata.?{name} != oldObject.metadata.?{name}" for name in (ANNOTATIONS, LABELS)
)
"""Whether a request sets annotations or labels to something else; a kubelet's reports never do."""


def metadata_variables(*fields: str) -> list[dict[str, str]]:
    """Variables with the annotations or labels after and before a request; empty maps where there are none."""
    return [
        variable
        for field in fields
        for variable in (
            {"name": field, "expression": f"object.metadata.?{field}.orValue({{}})"},
            {
                "name": f"{field}Before",
                "expression": f"request.operation == 'CREATE' ? {{}} : oldObject.metadata.?{field}.orValue({{}})",
            },
        )
    ]


def changed(field: str, keys: Sequence[str]) -> str:
    """The list of those keys whose value a request adds, alters or removes."""
    after, before = f"variables.{field}", f"variables.{field}Before"
    prefixes = [key.removesuffix(ANY_ENDING) for key in keys if key.endswith(ANY_ENDING)]
    parts = [listed([key for key in keys if not key.endswith(ANY_ENDING)])]
    for prefix in prefixes:
        parts += [
            f"({map_}.size() > {_MOST_SEEN} ? [] : {map_}.filter(key, key.startsWith({quoted(prefix)})))"
            for map_ in (after, before)
        ]
    found = parts[0] if len(parts) == 1 else "(" + " +\n".join(parts) + ")"
    return f"{found}.filter(key, {after}[?key] != {before}[?key])"


def only_changes(field: str, keys: Sequence[str]) -> str:
    """Whether a request leaves all annotations or labels but those keys as they are."""
    after, before = f"variables.{field}", f"variables.{field}Before"
    allowed = is_one_of("key", keys)
    return (
        f"{after} == {before} ||\n"
        f"{after}.size() <= {_MOST_SEEN} && {before}.size() <= {_MOST_SEEN} &&\n"
        f"{after}.all(key, {allowed} || {after}[?key] == {before}[?key]) &&\n"
        f"{before}.all(key, {allowed} || key in {after})"
    )


def few(field: str) -> str:
    """Whether a request leaves an object with as many annotations or labels as it may have, or with what it had."""
    after = f"variables.{field}"
    return f"{after}.size() <= {MOST_KEYS} || {after} == {after}Before"


def is_one_of(variable: str, keys: Sequence[str]) -> str:
    """Whether a variable is one of those keys."""
    single = [key for key in keys if not key.endswith(ANY_ENDING)]
    tests = [f"{variable} in {listed(single)}"] if single else []
    tests += [
        f"{variable}.startsWith({quoted(key.removesuffix(ANY_ENDING))})" for key in keys if key.endswith(ANY_ENDING)
    ]
    return " || ".join(tests) or "false"


def unchanged(*fields: str) -> str:
    """Whether a request leaves these fields, given by their paths, as they are."""
    tests = [f"object.{_optional(field)} == oldObject.{_optional(field)}" for field in fields]
    return " &&\n".join(tests)


def _optional(field: str) -> str:
    """A path whose last step may be missing."""
    first, _, last = field.rpartition(".")
    return f"{first}.?{last}" if first else f"?{last}"
