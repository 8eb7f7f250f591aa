"""Argument files: the content of files that plugins' arguments name, relative to the configuration's folder."""

import csv
from pathlib import Path
from typing import Any

from tonnage.config.document import read_document
from tonnage.config.notes import ConfigError, Notes
from tonnage.config.source import text_of_file
from tonnage.framework.plugin import ArgumentError, FileContent

_TABLE = ".csv"


def folder_of(source: str) -> Path:
    """The folder of a configuration, or the working directory if it is not from a file."""
    path = Path(source)
    return path.parent if path.is_file() else Path()


def file_content(argument: str, path: Any, folder: Path) -> FileContent:
    """The content of a file as plain data; ArgumentError if it cannot be read."""
    if not isinstance(path, str) or not path:
        raise ArgumentError(argument, "expected the path of a file")
    try:
        text = text_of_file(str(folder / path))
    except ConfigError as error:
        raise ArgumentError(argument, f"{path}: {error.errors[0].message}") from error
    if path.lower().endswith(_TABLE):
        return FileContent(path, _rows(argument, path, text), is_table=True)
    notes = Notes()
    root = read_document(text, path, notes)
    if root is None or notes.errors:
        raise ArgumentError(argument, notes.errors[0].shown(path))
    return FileContent(path, root.plain(), is_table=False)


def _rows(argument: str, path: str, text: str) -> list[dict[str, str]]:
    """The rows of a table, keyed by the names in its first line."""
    lines = csv.reader(text.splitlines())
    names = next(lines, [])
    rows = []
    for line in lines:
        if len(line) != len(names):
            got = f"{len(line)} values where the first line names {len(names)} columns"
            raise ArgumentError(argument, f"{path}: line {lines.line_num}: {got}")
        rows.append(dict(zip(names, line, strict=True)))
    return rows
