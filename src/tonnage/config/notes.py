"""Notes about a configuration: errors and warnings with their positions, and the nearest valid name."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

_MOST_LISTED = 12


class Position(NamedTuple):
    """A position in a file, counted from 1."""

    line: int
    column: int


class Note(NamedTuple):
    """One error or warning; without a position it is about the file as a whole."""

    position: Position | None
    message: str

    def shown(self, source: str, kind: str = "") -> str:
        """The note after its position, in the format of compilers."""
        place = f"{source}:{self.position.line}:{self.position.column}" if self.position else source
        return f"{place}: {kind}{': ' if kind else ''}{self.message}"


class Notes:
    """Collects the errors and warnings about one file."""

    def __init__(self) -> None:
        self.errors: list[Note] = []
        self.warnings: list[Note] = []

    def error(self, position: Position | None, message: str) -> None:
        """Note an error: the file cannot be used."""
        self.errors.append(Note(position, message))

    def warn(self, position: Position | None, message: str) -> None:
        """Note a warning: something does not do what its author may expect."""
        self.warnings.append(Note(position, message))


class ConfigError(ValueError):
    """A configuration that cannot be used, with all its errors and warnings."""

    def __init__(self, source: str, errors: list[Note], warnings: list[Note]) -> None:
        super().__init__("\n".join(note.shown(source) for note in errors))
        self.source = source
        self.errors = errors
        self.warnings = warnings


def in_order(notes: Iterable[Note]) -> list[Note]:
    """Notes in the order of their positions, those about the whole file first."""
    return sorted(notes, key=lambda note: note.position or Position(0, 0))


def advice(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known name, or all of them if they are few."""
    names = list(dict.fromkeys(known))
    by_lower = {valid.lower(): valid for valid in names}
    near = get_close_matches(name.lower(), by_lower, n=1)
    if near:
        return f"; did you mean {by_lower[near[0]]}?"
    return f"; known are {', '.join(names)}" if 0 < len(names) <= _MOST_LISTED else ""
