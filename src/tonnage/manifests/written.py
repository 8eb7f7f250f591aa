"""Written objects: one object of a file in any format, and the errors of files that cannot be read.

The reader takes a written object's header, decodes the object into typed data and looks up the line of a faulty field.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")

DEEPEST = 200
"""The deepest nesting that is read; no Kubernetes object is deeper, and composing one would exhaust the stack."""


class ManifestError(ValueError):
    """A file that cannot be read; the message says where and what to do."""


class TextError(ManifestError):
    """Text that cannot be read, with the line and column of the error."""

    def __init__(self, source: str, line: int | None, column: int | None, message: str) -> None:
        place = (f" line {line}" if line else "") + (f" column {column}" if column else "")
        super().__init__(f"{source}{place}: {message}")
        self.line = line
        self.column = column
        self.message = message


class Header(msgspec.Struct, frozen=True):
    """The kind and version that an object states."""

    kind: str | None = None
    version: str | None = None
    is_list: bool = False
    """Whether the object holds other objects: it has items, or it is a bare sequence."""


class Written(ABC):
    """One object of a file. Its reading methods raise WireError for faults of this object alone."""

    @abstractmethod
    def header(self) -> Header:
        """The kind and version that the object states."""

    @abstractmethod
    def items(self) -> Sequence["Written"]:
        """The objects in a list."""

    @abstractmethod
    def decode(self, kind: type[T]) -> T:
        """The object as typed data."""

    @abstractmethod
    def plain(self) -> object:
        """The object as plain lists and dictionaries."""

    @abstractmethod
    def peek(self, *names: str) -> str | None:
        """The text at this path of names; None if there is none. Never raises."""

    @abstractmethod
    def find(self, path: str, got: str = "") -> tuple[str, int]:
        """A field's path and its line, or the nearest known line. Never raises.

        `[...]` in the path means some entry of a map; it is replaced by the first entry whose kind is `got`.
        """
