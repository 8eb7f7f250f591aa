"""Documents: the text of a configuration, alone or in a ConfigMap, as parts that know their position.

Duplicate keys and invalid values are reported and removed here, so that the rest of the document can still be checked.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tonnage.config.notes import Notes, Position
from tonnage.manifests.written import TextError
from tonnage.manifests.yaml_nodes import TAG, ValueBudget, construct, entries, is_null, kind_of, scalar
from tonnage.manifests.yaml_text import documents
from tonnage.model.wire import WireError


class Form(NamedTuple):
    """A kind of configuration: its name, its content for messages, and the keys under which ConfigMaps hold it."""

    name: str
    content: str
    keys: tuple[str, ...]
    objects: tuple[str, ...] = ()
    """Kinds of Kubernetes objects that are such a configuration themselves."""


SCHEDULER = Form(
    "a scheduler configuration",
    "actions and tiers",
    ("volcano-scheduler.conf", "config.yaml"),
    ("KubeSchedulerConfiguration", "Policy"),
)
WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "object": "a map",
    "array": "a list",
}
Places = Callable[[int, int], Position]


class Part:
    """A value of the document and its position."""

    def __init__(self, node: Node, budget: ValueBudget, places: Places) -> None:
        self._node = node
        self._budget = budget
        self._places = places

    @property
    def position(self) -> Position:
        """The position at which the value begins."""
        return self._places(self._node.start_mark.line, self._node.start_mark.column)

    def inside(self, offset: int) -> Position:
        """The position of a character of a text; of the text's beginning if it spans several lines."""
        start, end = self._node.start_mark, self._node.end_mark
        if start.line != end.line:
            return self.position
        quoted = isinstance(self._node, ScalarNode) and self._node.style in ("'", '"')
        return self._places(start.line, start.column + offset + quoted)

    @property
    def words(self) -> str:
        """The kind of value, in words for messages."""
        return WORDS.get(kind_of(self._node), kind_of(self._node))

    @property
    def is_null(self) -> bool:
        """Whether nothing is written, or a null."""
        return is_null(self._node)

    def fields(self) -> dict[str, tuple["Part", "Part"]] | None:
        """Keys and values of a map; None if the value is no map."""
        if not isinstance(self._node, MappingNode):
            return None
        found = entries(self._node, "", self._budget)
        return {name: (self._part(key), self._part(value)) for name, (key, value) in found.items()}

    def items(self) -> list["Part"] | None:
        """The values of a list; None if the value is no list."""
        return [self._part(item) for item in self._node.value] if isinstance(self._node, SequenceNode) else None

    def plain(self) -> object:
        """The value as plain data."""
        return construct(self._node, "", self._budget)

    def text(self) -> str | None:
        """The text; None if the value is no text."""
        value = self.plain() if isinstance(self._node, ScalarNode) else None
        return value if isinstance(value, str) else None

    def lines_of_text(self, written: str) -> Places:
        """A map from lines and columns of this text to positions in the file: exact for a block, else its beginning."""
        first, outer, inner = self._node.start_mark.line + 1, written.splitlines(), self._node.value.splitlines()
        number = next((i for i, line in enumerate(inner) if line.strip()), 0)
        is_block = isinstance(self._node, ScalarNode) and self._node.style == "|"
        if is_block and inner and outer[first + number].endswith(inner[number]):
            indent = len(outer[first + number]) - len(inner[number])
            return lambda line, column: self._places(first + line, indent + column)
        return lambda line, column: self.position

    def _part(self, node: Node) -> "Part":
        return Part(node, self._budget, self._places)


def read_document(text: str, source: str, notes: Notes, form: Form = SCHEDULER) -> Part | None:
    """The configuration in a text, alone or in a ConfigMap; None if there is none, which is noted as an error."""
    root = _root(text, source, notes, form, lambda line, column: Position(line + 1, column + 1))
    fields = root.fields() if root is not None else None
    if root is None or fields is None or not {"apiVersion", "kind"} & fields.keys():
        return root
    if "kind" in fields and fields["kind"][1].text() in form.objects:
        return root
    return _from_config_map(fields, text, source, notes, form)


def top_level(text: str, source: str) -> set[str]:
    """The keys that tell what a text is: its own, or those of a ConfigMap's data; empty if it is no map."""
    root = _root(text, source, Notes(), SCHEDULER, Position)
    fields = (root.fields() if root is not None else None) or {}
    data = fields["data"][1].fields() if "data" in fields else None
    return set(fields) if data is None else set(data)


def _root(text: str, source: str, notes: Notes, form: Form, places: Places) -> Part | None:
    try:
        found = [Part(node, budget, places) for node, budget in documents(text, source)]
    except TextError as error:
        notes.error(places((error.line or 1) - 1, (error.column or 1) - 1), error.message)
        return None
    if not found:
        notes.error(places(0, 0), "no configuration; the file is empty or holds only comments")
        return None
    if len(found) > 1:
        kind = _kind(found[0])
        if kind is None or kind in ("ConfigMap", *form.objects):
            fault = f"a second document of {len(found)}; a configuration is one document, with {form.content}"
            notes.error(found[1].position, fault)
        else:
            fault = f"these are Kubernetes objects ({kind} and {len(found) - 1} more), not {form.name}"
            notes.error(found[0].position, f"{fault}; tonnage schedule -f reads objects")
        return None
    (part,) = found
    _tidy(part._node, places, notes, set(), [])
    return part if not notes.errors or part.fields() is not None else None


def _kind(part: Part) -> str | None:
    """The kind of a Kubernetes object; None for anything else."""
    fields = part.fields() or {}
    return fields["kind"][1].text() if "kind" in fields else None


def _from_config_map(
    fields: Mapping[str, tuple[Part, Part]], text: str, source: str, notes: Notes, form: Form
) -> Part | None:
    name = next(fields[key] for key in ("kind", "apiVersion") if key in fields)
    kind = name[1].text()
    if kind != "ConfigMap":
        notes.error(
            name[0].position,
            f"this is a Kubernetes object ({kind or name[1].words}), not {form.name}; expected {form.content}, "
            f"or a ConfigMap that holds them under {' or '.join(form.keys)}",
        )
        return None
    data = fields["data"][1].fields() if "data" in fields else None
    inner = [data[key][1] for key in form.keys if key in data] if data is not None else []
    if len(inner) != 1:
        where = fields["data"][0] if "data" in fields else name[0]
        which = "one of" if not inner else "only one of"
        notes.error(where.position, f"a ConfigMap's data must hold {which} {' and '.join(form.keys)}")
        return None
    content = inner[0].text()
    if content is None:
        notes.error(inner[0].position, f"expected the text of a configuration, got {inner[0].words}")
        return None
    return _root(content, source, notes, form, inner[0].lines_of_text(text))


def _tidy(node: Node, places: Places, notes: Notes, seen: set[int], above: list[int]) -> None:
    """Report invalid keys and values, and remove them from the tree."""
    position = places(node.start_mark.line, node.start_mark.column)
    if isinstance(node, ScalarNode):
        try:
            scalar(node, "")
        except WireError as error:
            notes.error(position, error.message)
            node.tag = TAG + "str"
        return
    if id(node) in seen:
        return
    seen.add(id(node))
    above.append(id(node))
    if isinstance(node, MappingNode):
        node.value = _kept(node, places, notes, above)
    else:
        node.value = [item for item in node.value if not _is_above(item, places, notes, above)]
    for child in node.value:
        _tidy(child[1] if isinstance(node, MappingNode) else child, places, notes, seen, above)
    above.pop()


def _kept(node: MappingNode, places: Places, notes: Notes, above: list[int]) -> list[tuple[Node, Node]]:
    first: dict[str, int] = {}
    kept: list[tuple[Node, Node]] = []
    for key, value in node.value:
        position = places(key.start_mark.line, key.start_mark.column)
        if not isinstance(key, ScalarNode):
            notes.error(position, "a key is a list or a map, not text")
        elif key.tag == TAG + "merge":
            merged = value.value if isinstance(value, SequenceNode) else [value]
            if not all(isinstance(other, MappingNode) for other in merged):
                notes.error(position, "the merge key `<<` needs a map or a list of maps")
            elif not any(_is_above(other, places, notes, above) for other in (value, *merged)):
                kept.append((key, value))
        elif key.value in first:
            notes.error(position, f"the key {key.value} stands twice; the first is on line {first[key.value]}")
        else:
            first[key.value] = position.line
            if not _is_above(value, places, notes, above):
                kept.append((key, value))
    return kept


def _is_above(node: Node, places: Places, notes: Notes, above: list[int]) -> bool:
    """Whether an alias refers to a node that contains it."""
    if id(node) not in above:
        return False
    notes.error(places(node.start_mark.line, node.start_mark.column), "an alias refers to itself; write the value out")
    return True
