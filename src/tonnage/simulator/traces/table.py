"""CSV tables whose errors name the file, the line and the column."""

import csv
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NoReturn

from tonnage.config.notes import advice
from tonnage.manifests.content import as_text, as_utf8, file_content
from tonnage.manifests.written import TextError

_LARGEST = 2**40


class CsvLine:
    """One line of a table."""

    __slots__ = ("_cells", "_table", "number")

    def __init__(self, table: "CsvTable", number: int, cells: Sequence[str]) -> None:
        self._table = table
        self._cells = cells
        self.number = number

    def text(self, name: str) -> str:
        """The text of a column; empty if the table does not have it."""
        position = self._table.columns.get(name)
        return "" if position is None else self._cells[position].strip()

    def amount(self, name: str) -> int:
        """An integer from 0 up."""
        text = self.text(name)
        if not (text.isascii() and text.isdigit()) or int(text[:16]) > _LARGEST:
            self.wrong(name, f"expected a whole number from 0 up, got {text!r}")
        return int(text)

    def time(self, name: str) -> float | None:
        """Seconds, or a date such as 2026-01-05T06:00:00Z as seconds since 1970; nothing if the column is empty."""
        text = self.text(name)
        if not text:
            return None
        try:
            return float(text) if text.replace(".", "", 1).isdigit() else _seconds(text)
        except ValueError:
            self.wrong(name, f"expected seconds or a date such as 2026-01-05T06:00:00Z, got {text!r}")

    def place(self, name: str) -> tuple[int, int]:
        """The position of a value."""
        position = self._table.columns.get(name, 0)
        return self.number, sum(len(cell) + 1 for cell in self._cells[:position]) + 1

    def wrong(self, name: str, message: str) -> NoReturn:
        """Raise an error about a value."""
        raise TextError(self._table.source, *self.place(name), f"{name}: {message}")


class CsvTable:
    """A table whose first line names its columns."""

    def __init__(self, source: str, required: Sequence[str]) -> None:
        self.source = source
        text = as_text(as_utf8(file_content(source), source), source)
        self._lines = csv.reader(text.splitlines())
        header = [name.strip() for name in next(self._lines, [])]
        self.columns: dict[str, int] = {}
        if not any(header):
            raise TextError(source, 1, 1, f"the file is empty; expected a line with {', '.join(required)}")
        for position, name in enumerate(header):
            column = sum(len(cell) + 1 for cell in header[:position]) + 1
            if name in self.columns:
                raise TextError(source, 1, column, f"the column {name} is there twice")
            self.columns[name] = position
        missing = [name for name in required if name not in self.columns]
        if missing:
            near = advice(missing[0], header) if len(missing) == 1 else ""
            near = near if "did you mean" in near else ""
            raise TextError(source, 1, 1, f"no column {', '.join(missing)}; there are {', '.join(header)}{near}")
        self._width = len(header)

    def __iter__(self) -> Iterator[CsvLine]:
        try:
            for cells in self._lines:
                if not any(cells):
                    continue
                line = CsvLine(self, self._lines.line_num, cells)
                if len(cells) != self._width:
                    message = f"{len(cells)} values where the first line names {self._width} columns"
                    raise TextError(self.source, line.number, 1, message)
                yield line
        except csv.Error as error:
            raise TextError(self.source, self._lines.line_num, 1, f"not comma-separated values: {error}") from error


def _seconds(text: str) -> float:
    date = datetime.fromisoformat(text)
    if date.tzinfo is None:
        date = datetime.fromisoformat(text + "+00:00")
    return date.timestamp()
