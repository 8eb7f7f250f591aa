"""Plugin arguments: the plugin reads them, and every error gets its position in the file."""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from tonnage.config.argumentfiles import file_content
from tonnage.config.document import Part
from tonnage.config.notes import Notes, Position, advice
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$")
_NO_CHOICE = re.compile(r"Invalid enum value (.*)$")
_QUOTE = "'"
_WORD = re.compile(r"[\w./*-]+")
_MOST_TAKEN_OUT = 100
"""The most errors about one plugin; nobody reads more, and each takes longer to find than the one before."""
_LIST_STEP = re.compile(r"\[(\d+)\]\.?")


class ArgumentReader:
    """Reads the arguments of one plugin; an error in one argument does not hide the others."""

    def __init__(
        self, kind: type[Plugin], plugin: Position, written: Part | None, notes: Notes, folder: Path = Path()
    ) -> None:
        self._kind = kind
        self._folder = folder
        self._plugin = plugin
        self._written = written
        self._notes = notes

    def read(self, given: Mapping[str, Any]) -> PluginArguments | None:
        """The arguments as the plugin's type; None if there are errors, which are noted."""
        left, taken_out = deepcopy(dict(given)), list[str]()
        for name in sorted(self._kind.file_arguments & left.keys()):
            try:
                left[name] = file_content(name, left[name], self._folder)
            except ArgumentError as error:
                self._complain(name, error.message)
                del left[name]
                taken_out.append(name)
        while True:
            warnings: list[tuple[str, str]] = []
            try:
                arguments = self._kind.read_arguments(left, lambda key, text: warnings.append((key, text)))  # noqa: B023
                break
            except ArgumentError as error:
                path = self._path(error, left)
                # An error above or below a removed argument is only about its absence.
                if not any(_leads_into(path, out) or _leads_into(out, path) for out in taken_out):
                    self._complain(path, error.message)
                removed = _take_out(left, path)
                if removed is None or len(taken_out) == _MOST_TAKEN_OUT:
                    return None
                taken_out.append(removed)
        for key, text in warnings:
            self._notes.warn(self._position(key), _joined(key, text))
        return None if taken_out else arguments

    def _path(self, error: ArgumentError, left: Mapping[str, Any]) -> str:
        """The path of the argument at fault; an error without a key is about the argument whose removal resolves it."""
        unknown = _UNKNOWN.match(error.message)
        if unknown:
            return f"{error.key}.{unknown[1]}" if error.key else unknown[1]
        if error.key:
            return error.key
        for name in left:
            try:
                self._kind.read_arguments({k: v for k, v in left.items() if k != name}, lambda key, text: None)
            except ArgumentError:
                continue
            return name
        return ""

    def _complain(self, path: str, message: str) -> None:
        unknown, no_choice = _UNKNOWN.match(message), _NO_CHOICE.match(message)
        if unknown:
            inside = path.removesuffix(unknown[1]).removesuffix(".")
            known = _names(_type_at(self._kind.Arguments, inside))
            taken = advice(unknown[1], known) or ("" if known else "; it takes none")
            self._notes.error(self._position(path), f"{self._kind.name} has no argument {path}{taken}")
            return
        choices = get_args(_type_at(self._kind.Arguments, path)) if no_choice else ()
        if no_choice and choices:
            value = no_choice[1]
            message = f"{value} is none of {', '.join(map(str, choices))}{_nearest(value.strip(_QUOTE), choices)}"
        elif message.startswith("Expected `"):
            message = message.replace("`", "").replace("Expected", "expected", 1)
        is_about_key = message.startswith("is no argument")
        if is_about_key:
            # A plugin that reads its arguments itself lists the valid ones in its message.
            words = _WORD.findall(message.partition("which takes ")[2])
            message += _nearest(path, [word for word in words if word not in ("and", "name")])
        self._notes.error(self._position(path, value=not is_about_key), _joined(path, message))

    def _position(self, path: str, value: bool = False) -> Position:
        """The position of an argument's key or value, or of the nearest part above it."""
        start = self._written.position if self._written is not None else self._plugin
        return position_of(self._written, path, start, value)


def position_of(part: Part | None, path: str, start: Position, value: bool = False) -> Position:
    """The position of the key or value at a path, or of the nearest part above it."""
    position = start
    for key, below in _steps(part, path):
        position = below.position if value and not below.is_null else key.position
    return position


def _nearest(name: str, known: Iterable[str]) -> str:
    """The nearest valid name, if one is near."""
    told = advice(name, known)
    return told if "did you mean" in told else ""


def _names(kind: Any) -> tuple[str, ...]:
    """The names of a struct's fields as they are written in the file."""
    return tuple(getattr(kind, "__struct_encode_fields__", ()))


def _type_at(kind: Any, path: str) -> Any:
    """The type at a path below a struct; None if it is not known."""
    for step in path.split(".") if path else ():
        name, *numbers = step.split("[")
        by_name = dict(zip(_names(kind), getattr(kind, "__struct_fields__", ()), strict=True))
        if name not in by_name:
            return None
        kind = get_type_hints(kind)[by_name[name]]
        for wrapped in (UnionType, *numbers):
            # Unwrap an optional type, and a list's type to that of its items.
            if wrapped is not UnionType or isinstance(kind, UnionType):
                kind = get_args(kind)[0] if get_args(kind) else None
    return kind


def _joined(path: str, sentence: str) -> str:
    """An argument's name in front of a sentence about it."""
    if not path:
        return sentence
    return f"{path} {sentence}" if sentence.startswith(("is ", "has ", "expects ", "goes ")) else f"{path}: {sentence}"


def _leads_into(path: str, above: str) -> bool:
    """Whether a path is equal to another or below it."""
    return path == above or not above or path.startswith((f"{above}.", f"{above}["))


def _owner(path: str, given: Mapping[str, Any]) -> str | None:
    """The name that a path begins with; names may contain dots, so the longest match counts."""
    fitting = [name for name in given if name and _leads_into(path, name)]
    return max(fitting, key=len, default=None)


def _take_out(given: dict[str, Any], path: str) -> str | None:
    """Remove the value at a path, or the nearest named value above it; returns the path of the removed value."""
    name, rest = _owner(path, given), path
    if name is None:
        return None
    while True:
        rest = rest[len(name) :].removeprefix(".")
        below, after = given[name], rest
        step = _LIST_STEP.match(rest)
        if isinstance(below, list) and step is not None and int(step[1]) < len(below):
            below, after = below[int(step[1])], rest[step.end() :]
        inner = _owner(after, below) if isinstance(below, dict) else None
        if inner is None:
            del given[name]
            return path.removesuffix(rest).removesuffix(".")
        given, name, rest = below, inner, after


def _steps(part: Part | None, path: str) -> Iterator[tuple[Part, Part]]:
    """Key and value at each step of a path, as far as the document has them."""
    while part is not None and path:
        items = part.items()
        if items is not None:
            step = _LIST_STEP.match(path)
            if step is None or int(step[1]) >= len(items):
                return
            part, path = items[int(step[1])], path[step.end() :]
            yield part, part
            continue
        fields = part.fields() or {}
        name = _owner(path, fields)
        if name is None:
            return
        path = path[len(name) :].removeprefix(".")
        key, part = fields[name]
        yield key, part
