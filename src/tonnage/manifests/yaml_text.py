"""Objects in YAML text: a tree of nodes per document, in which every field knows its line.

Nesting is limited, so that no text can exhaust the stack. `yaml_nodes` reads the values of nodes.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tonnage.manifests.written import DEEPEST, Header, TextError, Written
from tonnage.manifests.yaml_nodes import (
    ALIASES_MAY_ADD,
    BOOLEAN,
    FLOAT,
    INTEGER,
    MERGE,
    NULL,
    TAG,
    ValueBudget,
    construct,
    entries,
    is_null,
    kind_of,
    line_of,
    lookup,
)
from tonnage.model.wire import WireError, convert

T = TypeVar("T")

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


class TooDeepError(Exception):
    """Nesting beyond the limit, raised while composing; `line` is where it was exceeded."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def loader_class(base: type[Any]) -> type[Any]:
    """A subclass of a PyYAML loader that reads scalars as kubectl does and limits nesting."""

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
        depth = 0
        composed = 0

        # PyYAML calls these two around every node; its C parser recurses without a check of its own.
        def descend_resolver(self, parent: Node | None, index: object) -> None:
            self.depth += 1
            self.composed += 1
            if self.depth > DEEPEST:
                raise TooDeepError(parent.start_mark.line + 1 if parent is not None else 1)

        def ascend_resolver(self) -> None:
            self.depth -= 1

    for name, form, first in (
        ("int", INTEGER, "-+0123456789"),
        ("float", FLOAT, "-+0123456789."),
        ("bool", BOOLEAN, "yYnNtTfFoO"),
        ("null", NULL, ["~", "n", "N", ""]),
        ("merge", MERGE, "<"),
    ):
        Loader.add_implicit_resolver(TAG + name, form, list(first))
    return Loader


Loader = loader_class(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def find(node: Node, path: str, got: str = "") -> tuple[str, int]:
    """The line of a path below a node, or of the nearest node above it, and the path with `[...]` resolved."""
    line, shown = line_of(node), ""
    for step in _STEP.finditer(path):
        name = step[1] if step[1] is not None else step[2]
        text = step[0]
        below: tuple[Node, Node] | None = None
        if isinstance(node, SequenceNode) and name.isdigit() and int(name) < len(node.value):
            below = (node.value[int(name)],) * 2
        elif isinstance(node, MappingNode):
            some = (entry for entry in node.value if kind_of(entry[1]) == got)
            below = lookup(node, name) or (next(some, None) if name == "..." else None)
            if below is not None and step[1] is None:
                text = f"[{below[0].value}]"
        if below is None:
            return path, line
        line, node = line_of(below[0]), below[1]
        shown += text
    return shown, line


class YamlObject(Written):
    """An object that is a node of a YAML document."""

    def __init__(self, node: Node, budget: ValueBudget) -> None:
        self._node = node
        self._budget = budget

    def header(self) -> Header:
        if isinstance(self._node, SequenceNode):
            return Header(is_list=True)
        if not isinstance(self._node, MappingNode):
            raise WireError(f"Expected `object`, got `{kind_of(self._node)}`")
        fields = entries(self._node, "", self._budget)
        kind, version = (self._text(name, fields) for name in ("kind", "apiVersion"))
        items = fields["items"][1] if "items" in fields else None
        if isinstance(items, MappingNode | ScalarNode) and (kind or "").endswith("List") and not is_null(items):
            raise WireError(f"Expected `array`, got `{kind_of(items)}`", "items")
        return Header(kind, version, isinstance(items, SequenceNode))

    @staticmethod
    def _text(name: str, fields: dict[str, tuple[Node, Node]]) -> str | None:
        node = fields[name][1] if name in fields else None
        if node is None or is_null(node):
            return None
        if kind_of(node) != "str":
            raise WireError(f"Expected `str`, got `{kind_of(node)}`", name)
        return str(node.value)

    def items(self) -> Sequence[Written]:
        node = self._node
        if isinstance(node, MappingNode):
            node = entries(node, "", self._budget)["items"][1]
        return [YamlObject(item, self._budget) for item in node.value]

    def decode(self, kind: type[T]) -> T:
        return convert(self.plain(), kind)

    def plain(self) -> object:
        return construct(self._node, "", self._budget)

    def peek(self, *names: str) -> str | None:
        node: Node | None = self._node
        for name in names:
            if not isinstance(node, MappingNode):
                return None
            below = lookup(node, name)
            node = below[1] if below is not None else None
        return node.value if node is not None and kind_of(node) == "str" else None

    def find(self, path: str, got: str = "") -> tuple[str, int]:
        return find(self._node, path, got)


def compose(text: str) -> Iterator[tuple[Node, int]]:
    """The root of every document that is not empty, and the number of its nodes."""
    loader = Loader(text)
    try:
        while loader.check_node():
            loader.composed = 0
            node = loader.get_node()
            if node is not None and not is_null(node):
                yield node, loader.composed
    finally:
        loader.dispose()


def documents(text: str, source: str) -> Iterator[tuple[Node, ValueBudget]]:
    """The root of every document that is not empty, with its budget of values; TextError if the text is no YAML."""
    try:
        for node, composed in compose(text):
            yield node, ValueBudget(source, composed + ALIASES_MAY_ADD)
    except TooDeepError as error:
        message = f"nested more than {DEEPEST} levels deep; no Kubernetes object is"
        raise TextError(source, error.line, None, message) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise TextError(source, line, column, _syntax(error, text)) from error
    except yaml.YAMLError as error:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else None
        reason = getattr(error, "reason", None) or str(error).partition("\n")[0]
        raise TextError(source, line, None, f"{reason}; remove the characters that are not text") from error


def read_yaml(text: str, source: str) -> Iterator[YamlObject]:
    """Every document of a YAML text; ManifestError if the text is no YAML."""
    for node, budget in documents(text, source):
        yield YamlObject(node, budget)


def _syntax(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "this is not YAML"
    context = f" {error.context}" if error.context else ""
    lines = text.splitlines()
    if mark and mark.line < len(lines) and lines[mark.line][mark.column :].startswith("\t"):
        advice = "indent with spaces, not tabs"
    else:
        advice = "check the indentation and the quotes there"
    return f"bad YAML: {problem}{context}; {advice}"
