"""One object as it is written in a file, whatever the file's format, and the error of a file that cannot be read.

The reader asks a written object what it is, decodes it into typed data and, when something is wrong, asks on which
line of the file a field stands.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")

DEEPEST = 200
"""Nesting beyond this is no Kubernetes object, and composing it would exhaust the stack."""


class ManifestError(ValueError):
    """A file that cannot be read at all: which one, where in it, and what to do."""


class TextError(ManifestError):
    """Text that cannot be read, and the place in the file where that shows."""

    def __init__(self, source: str, line: int | None, column: int | None, message: str) -> None:
        place = (f" line {line}" if line else "") + (f" column {column}" if column else "")
        super().__init__(f"{source}{place}: {message}")
        self.line = line
        self.column = column
        self.message = message


class Header(msgspec.Struct, frozen=True):
    """What an object says it is."""

    kind: str | None = None
    version: str | None = None
    is_list: bool = False
    """Whether it holds other objects: it has items, or is a bare sequence."""


class Written(ABC):
    """One object of a file. Methods that read it raise WireError for what is wrong with this object alone."""

    @abstractmethod
    def header(self) -> Header:
        """What the object says it is."""

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
        """The text under these names, if there is one that can be read; raises nothing."""

    @abstractmethod
    def find(self, path: str, got: str = "") -> tuple[str, int]:
        """A field's path and its line, or the nearest line known; raises nothing.

        Where the path says `[...]` for some entry of a map, the first entry of the kind in `got` is named instead.
        """
