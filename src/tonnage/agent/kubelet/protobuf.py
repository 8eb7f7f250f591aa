"""Protocol buffers for the few messages that the kubelet speaks: structs whose fields carry numbers, to bytes and back.

A message is a msgspec struct with its field numbers in `NUMBERS`; types come from the annotations: text, bool, int,
messages, tuples of these, and maps of text. Unknown fields are skipped, as the format demands; anything malformed is a
`ProtobufError`.
"""

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import msgspec

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}


class ProtobufError(ValueError):
    """Bytes that are no such message."""


class Message(msgspec.Struct, frozen=True):
    """A message; `NUMBERS` has the number of each field."""

    NUMBERS: ClassVar[dict[str, int]] = {}


M = TypeVar("M", bound=Message)


class _Field(msgspec.Struct, frozen=True):
    """How one field is written."""

    name: str
    number: int
    kind: type
    is_many: bool
    is_map: bool


@cache
def _fields(kind: type[Message]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(_field(name, number, hints[name]) for name, number in kind.NUMBERS.items())


def _field(name: str, number: int, hint: Any) -> _Field:
    origin = get_origin(hint)
    inner = get_args(hint)[0] if origin in (tuple, UnionType) else hint
    return _Field(name, number, inner, is_many=origin is tuple, is_map=origin is dict)


# -- writing


def encode(message: Message) -> bytes:
    """A message as bytes; fields that have their default are left out."""
    parts: list[bytes] = []
    for field in _fields(type(message)):
        value = getattr(message, field.name)
        if field.is_map:
            pairs = [_delimited(1, key.encode()) + _delimited(2, text.encode()) for key, text in sorted(value.items())]
            parts += [_delimited(field.number, pair) for pair in pairs]
        elif field.is_many:
            parts += [_value(field.number, one) for one in value]
        elif value or isinstance(value, Message):
            parts.append(_value(field.number, value))
    return b"".join(parts)


def _value(number: int, value: Any) -> bytes:
    if isinstance(value, Message):
        return _delimited(number, encode(value))
    if isinstance(value, str):
        return _delimited(number, value.encode())
    return _varint(number << 3) + _varint(int(value))


def _delimited(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


# -- reading


def decode(data: bytes, kind: type[M]) -> M:
    """The message that bytes hold."""
    fields = {field.number: field for field in _fields(kind)}
    found: dict[str, Any] = {}
    for number, wire, value in _entries(data):
        field = fields.get(number)
        if field is None:
            continue
        expected = _VARINT if not field.is_map and field.kind in (int, bool) else _BYTES
        if wire != expected:
            raise ProtobufError(f"{kind.__name__}.{field.name} is of another type")
        if field.is_map:
            key, text = _pair(value)
            found.setdefault(field.name, {})[key] = text
        elif field.is_many:
            found.setdefault(field.name, []).append(_read(field.kind, value))
        else:
            found[field.name] = _read(field.kind, value)
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})


def _read(kind: type, value: Any) -> Any:
    if kind is str:
        return _text(value)
    if kind is bool:
        return bool(value)
    if kind is int:
        return value - 2**64 if value >= 2**63 else value
    return decode(value, kind)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("a text is not UTF-8") from error


def _pair(data: bytes) -> tuple[str, str]:
    texts = {number: _text(value) for number, wire, value in _entries(data) if wire == _BYTES}
    return texts.get(1, ""), texts.get(2, "")


def _entries(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """The number, wire type and raw value of every field."""
    place = 0
    while place < len(data):
        tag, place = _read_varint(data, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, place = _read_varint(data, place)
            yield number, wire, value
            continue
        if wire == _BYTES:
            length, place = _read_varint(data, place)
        elif wire in _WIDTHS:
            length = _WIDTHS[wire]
        else:
            raise ProtobufError(f"wire type {wire} is unknown")
        if place + length > len(data):
            raise ProtobufError("the message ends inside a field")
        yield number, wire, data[place : place + length]
        place += length


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for count in range(_LONGEST_VARINT):
        if place + count >= len(data):
            break
        byte = data[place + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & (2**64 - 1), place + count + 1
    raise ProtobufError("a number does not end")
