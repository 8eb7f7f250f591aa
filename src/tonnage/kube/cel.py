"""Expressions in CEL, the language in which the API server is told which requests a manifest concerns."""

from collections.abc import Sequence


def quoted(text: str) -> str:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def listed(texts: Sequence[str]) -> str:
    """A list of string literals, one per line unless they are few."""
    literals = [quoted(text) for text in texts]
    if len(literals) < 3:
        return f"[{', '.join(literals)}]"
    return "[\n" + "".join(f"  {literal},\n" for literal in literals[:-1]) + f"  {literals[-1]}\n]"


def names_resource(names: Sequence[str]) -> str:
    """Whether a container or init container of a pod names one of those resources in its limits or requests.

    The API server folds the constant list into a set, so that each name costs one look-up.
    """
    return _NAMES_RESOURCE.format(listed(names).replace("\n", "\n  "))


_NAMES_RESOURCE = """\
(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])).exists(container,
  has(container.resources) && [
    has(container.resources.limits) ? container.resources.limits : {{}},
    has(container.resources.requests) ? container.resources.requests : {{}}
  ].exists(amounts, amounts.exists(name, name in {})))"""
