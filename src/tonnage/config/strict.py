"""The strict reader of typed parts: every key must be known, and every value must have its type.

A msgspec struct lists the keys of a part. Every error is noted at its position, and one error does not hide the next. A
key without a value counts as left out.
"""

import re
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from tonnage.config.document import WORDS, Part
from tonnage.config.notes import Notes, advice
from tonnage.model.wire import WireError, convert

T = TypeVar("T", bound=msgspec.Struct)

_TYPE = re.compile(r"`(\w+)`")


def read(part: Part, kind: type[T], what: str, notes: Notes) -> T | None:
    """A part as a struct; None if it has errors, which are noted."""
    value = _read(part, kind, what, notes)
    return value if isinstance(value, kind) else None


class _Wrong:
    """The placeholder of an invalid value."""


_WRONG = _Wrong()


def _read(part: Part, kind: Any, what: str, notes: Notes) -> object:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _read_struct(part, kind, what, notes)
    if get_origin(kind) is list:
        return _read_list(part, get_args(kind)[0], what, notes)
    try:
        return convert(part.plain(), kind)
    except WireError as error:
        notes.error(part.position, f"{what}: {_told(error.message, kind, part)}")
        return _WRONG


def _read_struct(part: Part, kind: type[msgspec.Struct], what: str, notes: Notes) -> object:
    fields = part.fields()
    if fields is None:
        notes.error(part.position, f"{what}: expected a map, got {part.words}")
        return _WRONG
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    types = get_type_hints(kind, include_extras=True)
    values, wrong = {}, False
    for key, (name, value) in fields.items():
        if key not in names:
            notes.error(name.position, f"{what} has no key {key}{advice(key, names)}")
            wrong = True
        elif not value.is_null:
            values[names[key]] = _read(value, types[names[key]], key, notes)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in values:
            notes.error(part.position, f"{what} needs {field.encode_name}")
            wrong = True
    return _WRONG if wrong or _WRONG in values.values() else kind(**values)


def _read_list(part: Part, kind: Any, what: str, notes: Notes) -> object:
    items = part.items()
    if items is None:
        notes.error(part.position, f"{what}: expected a list, got {part.words}")
        return _WRONG
    values = [_read(item, kind, what, notes) for item in items]
    return _WRONG if _WRONG in values else values


def _told(message: str, kind: Any, part: Part) -> str:
    """The decoder's message in words, without its types."""
    bare = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    if get_origin(bare) is Literal and part.text() is not None:
        choices = [choice for choice in get_args(bare) if choice]
        near = advice(str(part.text()), choices)
        near = near if "did you mean" in near else ""
        return f"{part.text()} is none of {', '.join(choices)}{near}"
    if "matching regex" in message:
        return f"{part.text()!r} is no name of a resource, such as nvidia.com/gpu"
    message = _TYPE.sub(lambda found: WORDS.get(found[1], found[1]), message)
    shown = part.plain()
    value = f", got {shown}" if isinstance(shown, int | float) and "got" not in message else ""
    return message[0].lower() + message[1:] + value
