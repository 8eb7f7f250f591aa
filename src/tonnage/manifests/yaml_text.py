"""Objects written in YAML: a tree of nodes per document, so that every field knows its line.

Scalars are read the way kubectl reads them: timestamps and times of day stay text, 1e3 is a number, yes is true. A key
twice in one mapping is refused. Nesting and what aliases expand to are limited, so that no text can exhaust memory
or the stack.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tonnage.manifests.written import DEEPEST, Header, ManifestError, Written
from tonnage.model.wire import WireError, convert

T = TypeVar("T")

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0[0-7_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)$", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
_BOOLEAN = re.compile(r"(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$")
_NULL = re.compile(r"(?:~|null|Null|NULL|)$")
_MERGE = re.compile(r"<<$")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_KINDS = {"str": "str", "int": "int", "float": "float", "bool": "bool", "null": "null", "map": "object", "seq": "array"}
_MOST_DIGITS = 100
ALIASES_MAY_ADD = 500_000
"""How many values aliases may add to those that a document spells out."""


class TooDeepError(Exception):
    """Raised while composing; the line is where the nesting went too far."""


def loader_class(base: type[Any]) -> type[Any]:
    """A loader with kubectl's idea of scalars, and with a limit on nesting, on top of one of PyYAML's."""

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
        ("int", _INTEGER, "-+0123456789"),
        ("float", _FLOAT, "-+0123456789."),
        ("bool", _BOOLEAN, "yYnNtTfFoO"),
        ("null", _NULL, ["~", "n", "N", ""]),
        ("merge", _MERGE, "<"),
    ):
        Loader.add_implicit_resolver(_TAG + name, form, list(first))
    return Loader


Loader = loader_class(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class _Budget:
    """How many more values may be made of a document, and the file to name when there are too many."""

    def __init__(self, source: str, left: int) -> None:
        self.source = source
        self.left = left

    def spend(self, node: Node, depth: int) -> None:
        self.left -= 1
        if self.left < 0 or depth > DEEPEST:
            what = "refers to itself" if self.left >= 0 else f"expands to over {ALIASES_MAY_ADD} more values"
            raise ManifestError(
                f"{self.source} line {_line(node)}: an alias {what}; write the value out instead of repeating it"
            )


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _short_tag(node: Node) -> str:
    return str(node.tag).removeprefix(_TAG)


def _kind(node: Node) -> str:
    """What a node holds, in the words of wire errors."""
    return _KINDS.get(_short_tag(node), _short_tag(node))


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and _kind(node) == "null"


def _scalar(node: ScalarNode, path: str) -> object:
    text = node.value
    match _short_tag(node):
        case "str" | "merge":
            return text
        case "null":
            return None
        case "bool" if _BOOLEAN.match(text):
            return text.lower() in ("yes", "true", "on")
        case "int" if _INTEGER.match(text):
            return _integer(text)
        case "float" if _FLOAT.match(text) or _INTEGER.match(text):
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan").replace("_", ""))
        case tag:
            raise WireError(f"the tag {tag} does not fit {text[:40]!r}", path)


def _integer(text: str) -> int | str:
    digits = text.replace("_", "").lower()
    if len(digits) > _MOST_DIGITS:
        return text
    plain = digits.lstrip("+-")
    if len(plain) > 1 and plain[0] == "0" and plain[1].isdigit():
        return int(digits, 8)
    return int(digits, 0)


def _entries(node: MappingNode, path: str, budget: _Budget, depth: int = 0) -> dict[str, tuple[Node, Node]]:
    """Key and value by key text, merged mappings below the node's own keys."""
    own: dict[str, tuple[Node, Node]] = {}
    merged: list[Node] = []
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise WireError(f"line {_line(key)}: a key is a list or a mapping, not text", path)
        if key.tag == _TAG + "merge":
            merged.extend(value.value if isinstance(value, SequenceNode) else [value])
        elif key.value in own:
            first = _line(own[key.value][0])
            raise WireError(f"the key {key.value!r} stands twice, on lines {first} and {_line(key)}", path)
        else:
            own[key.value] = key, value
    for other in merged:
        if not isinstance(other, MappingNode):
            raise WireError("the merge key `<<` needs a mapping or a list of mappings", path)
        budget.spend(other, depth)
        for name, entry in _entries(other, path, budget, depth + 1).items():
            own.setdefault(name, entry)
    return own


def _construct(node: Node, path: str, budget: _Budget, depth: int = 0) -> object:
    budget.spend(node, depth)
    if isinstance(node, ScalarNode):
        return _scalar(node, path)
    if not isinstance(node, MappingNode):
        return [_construct(item, f"{path}[{i}]", budget, depth + 1) for i, item in enumerate(node.value)]
    prefix = path + "." if path else ""
    return {
        name: _construct(value, prefix + name, budget, depth + 1)
        for name, (_, value) in _entries(node, path, budget).items()
    }


def find(node: Node, path: str, got: str = "") -> tuple[str, int]:
    """The line of a path below a node, or of the nearest node above it, and the path with `[...]` made plain."""
    line, shown = _line(node), ""
    for step in _STEP.finditer(path):
        name = step[1] if step[1] is not None else step[2]
        text = step[0]
        below: tuple[Node, Node] | None = None
        if isinstance(node, SequenceNode) and name.isdigit() and int(name) < len(node.value):
            below = (node.value[int(name)],) * 2
        elif isinstance(node, MappingNode):
            for key, value in node.value:
                if key.value == name or (name == "..." and _kind(value) == got):
                    below = key, value
                    text = f"[{key.value}]" if step[1] is None else text
                    break
        if below is None:
            return path, line
        line, node = _line(below[0]), below[1]
        shown += text
    return shown, line


class YamlObject(Written):
    """An object that is a node of a YAML document."""

    def __init__(self, node: Node, budget: _Budget) -> None:
        self._node = node
        self._budget = budget

    def header(self) -> Header:
        if isinstance(self._node, SequenceNode):
            return Header(is_list=True)
        if not isinstance(self._node, MappingNode):
            raise WireError(f"Expected `object`, got `{_kind(self._node)}`")
        entries = _entries(self._node, "", self._budget)
        kind, version = (self._text(name, entries) for name in ("kind", "apiVersion"))
        items = entries["items"][1] if "items" in entries else None
        if isinstance(items, MappingNode | ScalarNode) and (kind or "").endswith("List") and not _is_null(items):
            raise WireError(f"Expected `array`, got `{_kind(items)}`", "items")
        return Header(kind, version, isinstance(items, SequenceNode))

    @staticmethod
    def _text(name: str, entries: dict[str, tuple[Node, Node]]) -> str | None:
        node = entries[name][1] if name in entries else None
        if node is None or _is_null(node):
            return None
        if _kind(node) != "str":
            raise WireError(f"Expected `str`, got `{_kind(node)}`", name)
        return str(node.value)

    def items(self) -> Sequence[Written]:
        node = self._node
        if isinstance(node, MappingNode):
            node = _entries(node, "", self._budget)["items"][1]
        return [YamlObject(item, self._budget) for item in node.value]

    def decode(self, kind: type[T]) -> T:
        return convert(self.plain(), kind)

    def plain(self) -> object:
        return _construct(self._node, "", self._budget)

    def peek(self, *names: str) -> str | None:
        node: Node | None = self._node
        for name in names:
            if not isinstance(node, MappingNode):
                return None
            node = next((value for key, value in node.value if key.value == name), None)
        return node.value if node is not None and _kind(node) == "str" else None

    def find(self, path: str, got: str = "") -> tuple[str, int]:
        return find(self._node, path, got)


def compose(text: str) -> Iterator[tuple[Node, int]]:
    """The root of every document that is not empty, and how many nodes were composed so far for it."""
    loader = Loader(text)
    try:
        while loader.check_node():
            loader.composed = 0
            node = loader.get_node()
            if node is not None and not _is_null(node):
                yield node, loader.composed
    finally:
        loader.dispose()


def read_yaml(text: str, source: str) -> Iterator[YamlObject]:
    """Every document of a YAML text; ManifestError where the text is no YAML."""
    try:
        for node, composed in compose(text):
            yield YamlObject(node, _Budget(source, composed + ALIASES_MAY_ADD))
    except TooDeepError as error:
        raise ManifestError(
            f"{source} line {error}: nested more than {DEEPEST} levels deep; no Kubernetes object is"
        ) from error
    except yaml.MarkedYAMLError as error:
        raise ManifestError(_syntax(error, text, source)) from error
    except yaml.YAMLError as error:
        position = getattr(error, "position", None)
        place = f" line {text.count(chr(10), 0, position) + 1}" if isinstance(position, int) else ""
        reason = getattr(error, "reason", None) or str(error).partition("\n")[0]
        raise ManifestError(f"{source}{place}: {reason}; remove the characters that are not text") from error


def _syntax(error: yaml.MarkedYAMLError, text: str, source: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f" line {mark.line + 1} column {mark.column + 1}" if mark else ""
    problem = error.problem or "this is not YAML"
    context = f" {error.context}" if error.context else ""
    lines = text.splitlines()
    if mark and mark.line < len(lines) and lines[mark.line][mark.column :].startswith("\t"):
        advice = "indent with spaces, not tabs"
    else:
        advice = "check the indentation and the quotes there"
    return f"{source}{place}: bad YAML: {problem}{context}; {advice}"
