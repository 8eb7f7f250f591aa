"""What is said about a configuration: errors and warnings, each with its place, and the nearest valid name."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

_MOST_LISTED = 12


class Position(NamedTuple):
    """A place in a file, counted from 1."""

    line: int
    column: int


class Note(NamedTuple):
    """One thing to say; without a position it is about the file as a whole."""

    position: Position | None
    message: str

    def shown(self, source: str, kind: str = "") -> str:
        """The note with its place in front, as compilers print theirs."""
        place = f"{source}:{self.position.line}:{self.position.column}" if self.position else source
        return f"{place}: {kind}{': ' if kind else ''}{self.message}"


class Notes:
    """Collects what there is to say about one file."""

    def __init__(self) -> None:
        self.errors: list[Note] = []
        self.warnings: list[Note] = []

    def error(self, position: Position | None, message: str) -> None:
        """Something that keeps the file from being used."""
        self.errors.append(Note(position, message))

    def warn(self, position: Position | None, message: str) -> None:
        """Something that does not do what one might think."""
        self.warnings.append(Note(position, message))


class ConfigError(ValueError):
    """A configuration that cannot be used: everything that is wrong with it."""

    def __init__(self, source: str, errors: list[Note], warnings: list[Note]) -> None:
        super().__init__("\n".join(note.shown(source) for note in errors))
        self.source = source
        self.errors = errors
        self.warnings = warnings


def in_order(notes: Iterable[Note]) -> list[Note]:
    """Notes in the order of the file, those about the file as a whole in front."""
    return sorted(notes, key=lambda note: note.position or Position(0, 0))


def advice(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that is not known: the nearest one, or else all if they are few."""
    names = list(dict.fromkeys(known))
    by_lower = {valid.lower(): valid for valid in names}
    near = get_close_matches(name.lower(), by_lower, n=1)
    if near:
        return f"; did you mean {by_lower[near[0]]}?"
    return f"; known are {', '.join(names)}" if 0 < len(names) <= _MOST_LISTED else ""
