"""Objects in JSON text, decoded one by one straight into typed data.

Lines are computed only for an object with a fault, from the offset of its text in the file.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import yaml

from tonnage.manifests import yaml_text
from tonnage.manifests.written import Header, Written
from tonnage.model.wire import Envelope, WireError, decode, texts

T = TypeVar("T")

_MOST_SEARCHED = 100
"""In how many faulty objects of a file the field's line is searched; later ones are reported by their first line."""
_LARGEST_SEARCHED = 1_000_000


class _File:
    """The bytes of a file, and line numbers by offset; ascending offsets cost one pass over the file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.searched = 0
        self._offset = 0
        self._line = 1

    def line(self, offset: int) -> int:
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self.data.count(b"\n", self._offset, offset)
        self._offset = offset
        return self._line


class JsonObject(Written):
    """An object whose JSON text is not decoded yet."""

    def __init__(self, raw: msgspec.Raw, file: _File, start: int, parent: "JsonObject | None" = None) -> None:
        self._raw = raw
        self._file = file
        self._start = start
        """The offset of the text in the file, or its index within a parent."""
        self._parent = parent
        self._items: list[msgspec.Raw] = []
        self._starts: list[int] = []

    def header(self) -> Header:
        if bytes(memoryview(self._raw)[:1]) == b"[":
            self._items = decode(self._raw, list[msgspec.Raw])
            return Header(is_list=True)
        envelope = decode(self._raw, Envelope)
        self._items = envelope.items or []
        return Header(envelope.kind, envelope.apiVersion, envelope.items is not None)

    def items(self) -> Sequence[Written]:
        return [JsonObject(raw, self._file, i, self) for i, raw in enumerate(self._items)]

    def decode(self, kind: type[T]) -> T:
        return decode(self._raw, kind)

    def plain(self) -> object:
        return decode(self._raw, object)

    def peek(self, *names: str) -> str | None:
        try:
            value: Any = self.plain()
        except WireError:
            return None
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, str) else None

    def find(self, path: str, got: str = "") -> tuple[str, int]:
        line = self._file.line(self._offset())
        text = bytes(self._raw)
        if not path or self._file.searched >= _MOST_SEARCHED or len(text) > _LARGEST_SEARCHED:
            return path, line
        self._file.searched += 1
        try:
            # Almost all JSON is YAML. For the rest, the object's first line is reported.
            node, _ = next(yaml_text.compose(text.decode()))
        except (yaml.YAMLError, UnicodeDecodeError, yaml_text.TooDeepError, StopIteration):
            return path, line
        shown, below = yaml_text.find(node, path, got)
        return shown, line + below - 1

    def _offset(self) -> int:
        if self._parent is None:
            return self._start
        return self._parent._offset() + self._parent._starts_of_items()[self._start]

    def _starts_of_items(self) -> list[int]:
        if not self._starts:
            text = bytes(self._raw)
            position = 1 if text.startswith(b"[") else max(text.find(b'"items"'), 0)
            for raw in self._items:
                item = bytes(raw)
                position = max(text.find(item, position), 0)
                self._starts.append(position)
                position += len(item)
        return self._starts


def read_json(data: bytes) -> Iterator[JsonObject]:
    """Every JSON text of a file, in order; MalformedError if one is not JSON."""
    file = _File(data)
    for start, raw in texts(data):
        yield JsonObject(raw, file, start)
