"""Nodes of a composed YAML document: the values of scalars, the entries of mappings, plain data.

Scalars are read as kubectl reads them: timestamps and times of day stay text, 1e3 is a number, yes is true. A duplicate
key in a mapping is an error. The expansion of aliases is limited, so that no text can exhaust memory.
"""

import re

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tonnage.manifests.written import DEEPEST, TextError
from tonnage.model.wire import WireError

TAG = "tag:yaml.org,2002:"
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0[0-7_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)$", re.ASCII)
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
BOOLEAN = re.compile(r"(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$")
NULL = re.compile(r"(?:~|null|Null|NULL|)$")
MERGE = re.compile(r"<<$")
_KINDS = {"str": "str", "int": "int", "float": "float", "bool": "bool", "null": "null", "map": "object", "seq": "array"}
_MOST_DIGITS = 100
ALIASES_MAY_ADD = 500_000
"""The number of values that aliases may add to those that a document spells out."""


class ValueBudget:
    """The number of values that a document may still produce, and the file to name if there are too many."""

    def __init__(self, source: str, left: int) -> None:
        self.source = source
        self.left = left

    def spend(self, node: Node, depth: int) -> None:
        """Count one value."""
        self.left -= 1
        if self.left < 0 or depth > DEEPEST:
            what = "refers to itself" if self.left >= 0 else f"expands to over {ALIASES_MAY_ADD} more values"
            message = f"an alias {what}; write the value out instead of repeating it"
            raise TextError(self.source, line_of(node), None, message)


def line_of(node: Node) -> int:
    """The line on which a node begins, counted from 1."""
    return int(node.start_mark.line) + 1


def short_tag(node: Node) -> str:
    """A node's tag without YAML's own prefix."""
    return str(node.tag).removeprefix(TAG)


def kind_of(node: Node) -> str:
    """The kind of a node's value, in the words of wire errors."""
    return _KINDS.get(short_tag(node), short_tag(node))


def is_null(node: Node) -> bool:
    """Whether a node is a null, written or left out."""
    return isinstance(node, ScalarNode) and kind_of(node) == "null"


def scalar(node: ScalarNode, path: str) -> object:
    """The value of a scalar; WireError if its tag does not fit its text."""
    text = node.value
    match short_tag(node):
        case "str" | "merge":
            return text
        case "null":
            return None
        case "bool" if BOOLEAN.match(text):
            return text.lower() in ("yes", "true", "on")
        case "int" if INTEGER.match(text):
            return _integer(text)
        case "float" if FLOAT.match(text) or INTEGER.match(text):
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


def entries(node: MappingNode, path: str, budget: ValueBudget, depth: int = 0) -> dict[str, tuple[Node, Node]]:
    """Key and value nodes by key; the node's own keys override merged mappings."""
    own: dict[str, tuple[Node, Node]] = {}
    merged: list[Node] = []
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise WireError(f"line {line_of(key)}: a key is a list or a mapping, not text", path)
        if key.tag == TAG + "merge":
            merged.extend(value.value if isinstance(value, SequenceNode) else [value])
        elif key.value in own:
            first = line_of(own[key.value][0])
            raise WireError(f"the key {key.value!r} stands twice, on lines {first} and {line_of(key)}", path)
        else:
            own[key.value] = key, value
    for other in merged:
        if not isinstance(other, MappingNode):
            raise WireError("the merge key `<<` needs a mapping or a list of mappings", path)
        budget.spend(other, depth)
        for name, entry in entries(other, path, budget, depth + 1).items():
            own.setdefault(name, entry)
    return own


def lookup(node: MappingNode, name: str) -> tuple[Node, Node] | None:
    """The key and value nodes of one key, in the mapping itself or in merged ones. Never raises."""
    seen = set[int]()
    mappings: list[Node] = [node]
    while mappings:
        mapping = mappings.pop(0)
        if not isinstance(mapping, MappingNode) or id(mapping) in seen:
            continue
        seen.add(id(mapping))
        merged: list[Node] = []
        for key, value in mapping.value:
            if key.tag == TAG + "merge":
                merged.extend(value.value if isinstance(value, SequenceNode) else [value])
            elif key.value == name:
                return key, value
        mappings[:0] = merged
    return None


def construct(node: Node, path: str, budget: ValueBudget, depth: int = 0) -> object:
    """A node as plain lists and dictionaries."""
    budget.spend(node, depth)
    if isinstance(node, ScalarNode):
        return scalar(node, path)
    if not isinstance(node, MappingNode):
        return [construct(item, f"{path}[{i}]", budget, depth + 1) for i, item in enumerate(node.value)]
    prefix = path + "." if path else ""
    return {
        name: construct(value, prefix + name, budget, depth + 1)
        for name, (_, value) in entries(node, path, budget).items()
    }
