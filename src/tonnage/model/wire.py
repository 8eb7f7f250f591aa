"""The wire format: Kubernetes JSON into typed data and back; the only module that knows which library does it."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from tonnage.model.kinds import BY_STRUCT

T = TypeVar("T")


class WireError(ValueError):
    """Data that does not match its type: what is wrong, and the path to it."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path


class MalformedError(WireError):
    """Text that is not JSON, with the byte of the error if it is known."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset

    @property
    def is_cut_off(self) -> bool:
        """Whether the text is valid JSON that ends too early."""
        return self.message == "Input data was truncated"


class Envelope(msgspec.Struct, gc=False, frozen=True):
    """The kind, version and items of any object; items stay undecoded."""

    kind: str | None = None
    apiVersion: str | None = None
    items: list[msgspec.Raw] | None = None


_OFFSET = re.compile(r" \(byte (\d+)\)$")
_TRAILING = "trailing characters"
_SOMETHING = re.compile(rb"[^ \t\r\n]")


def _wire_error(error: msgspec.ValidationError) -> WireError:
    message, _, path = str(error).partition(" - at `")
    path = path.rstrip("`").removeprefix("key` in `")
    return WireError(message, path.removeprefix("$").removeprefix("."))


def _malformed(error: Exception) -> MalformedError:
    place = _OFFSET.search(str(error))
    return MalformedError(str(error), int(place[1]) if place else None)


def decode(data: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
    """Typed data from JSON text."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _wire_error(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(error) from error


def check_text(data: bytes) -> None:
    """Raise WireError if JSON is not UTF-8; the decoder does not check parts that stay raw."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _malformed(error) from error


def decode_object(data: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
    """Typed data from the JSON text of a Kubernetes object; a null field counts as absent."""
    try:
        return decode(data, kind)
    except WireError as error:
        if not is_about_null(error):
            raise
    return convert(without_nulls(decode(data, object)), kind)


def is_about_null(error: WireError) -> bool:
    """Whether the data is wrong only because of a null."""
    return "got `null`" in error.message


def without_nulls(value: object) -> object:
    """Plain data without null entries; call it only for objects that have one."""
    if isinstance(value, dict):
        return {name: without_nulls(below) for name, below in value.items() if below is not None}
    return [without_nulls(below) for below in value] if isinstance(value, list) else value


def texts(data: bytes) -> Iterator[tuple[int, msgspec.Raw]]:
    """Every JSON text in a stream of several, with the byte at which each begins."""
    view = memoryview(data)
    start, end = 0, len(data)
    while (found := _SOMETHING.search(data, start)) is not None:
        start = found.start()
        try:
            text, following = decode(view[start:], msgspec.Raw), end
        except MalformedError as error:
            offset = end if error.offset is None else start + error.offset
            if _TRAILING not in error.message:
                raise MalformedError(error.message, offset) from error
            following = offset - 1
            text = decode(view[start:following], msgspec.Raw)
        yield start, text
        start = following


def convert(data: object, kind: type[T]) -> T:
    """Typed data from plain lists and dictionaries."""
    try:
        return msgspec.convert(data, type=kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise _wire_error(error) from error


def manifest(thing: object) -> dict[str, Any]:
    """An object of the model as plain data, without default fields; decoding gives the same object back."""
    kind = BY_STRUCT[type(thing)]
    plain: Any = without_nulls(msgspec.to_builtins(thing))
    return {"apiVersion": kind.api_version, "kind": kind.name, **plain}


def encode(data: object) -> bytes:
    """JSON text of typed or plain data, keys in the order given."""
    return msgspec.json.encode(data)


def encode_pretty(data: object) -> bytes:
    """JSON text with indentation."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2)


def comparable(data: object) -> bytes:
    """A text that is equal for equal data, whatever the order of keys."""
    return msgspec.json.encode(data, order="sorted")
