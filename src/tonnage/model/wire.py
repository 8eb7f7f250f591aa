"""Decoding Kubernetes JSON into typed data: the only module that knows which library does it."""

from typing import Any, TypeVar

import msgspec

from tonnage.model.node import Node
from tonnage.model.pod import Pod

T = TypeVar("T")


class WireError(ValueError):
    """Data that is not what its type says: what was wrong, and the path to it."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path


class Envelope(msgspec.Struct, gc=False, frozen=True):
    """Just enough of any object to know what it is; its content stays undecoded."""

    kind: str | None = None
    apiVersion: str | None = None
    items: list[msgspec.Raw] | None = None


class Named(msgspec.Struct, gc=False, frozen=True):
    """Just enough of a broken object to say which one it is."""

    metadata: dict[str, Any] | None = None


KINDS: dict[tuple[str, str], type[Node] | type[Pod]] = {("v1", "Node"): Node, ("v1", "Pod"): Pod}


def _wire_error(error: msgspec.ValidationError) -> WireError:
    message, _, path = str(error).partition(" - at `")
    return WireError(message, path.rstrip("`").removeprefix("$."))


def decode(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Typed data from JSON text."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _wire_error(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(str(error)) from error


def convert(data: object, kind: type[T]) -> T:
    """Typed data from plain lists and dictionaries."""
    try:
        return msgspec.convert(data, type=kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise _wire_error(error) from error


def encode(data: object) -> bytes:
    """JSON text of typed or plain data, keys in the order given."""
    return msgspec.json.encode(data)
