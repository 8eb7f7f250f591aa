"""Reading Kubernetes objects as kubectl prints them: a list, single objects, several documents; JSON or YAML.

A file that cannot be read is a ManifestError. Anything wrong with one object is a Problem with the object's name and
the line, and never hides the other objects. Kinds that Tonnage does not use are counted.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from tonnage.manifests.json_text import read_json
from tonnage.manifests.objects import Manifests, Reader
from tonnage.manifests.written import ManifestError, Written
from tonnage.manifests.yaml_text import read_yaml
from tonnage.model.wire import MalformedError

__all__ = ["ManifestError", "Manifests", "read_bytes", "read_files"]

STANDARD_INPUT = "-"
_LARGEST_TRIED_AS_YAML = 10_000_000
"""Bytes up to which a text that looks like JSON and is not is tried as YAML; nobody writes longer ones like that."""


def read_files(paths: Sequence[str], stdin: BinaryIO | None = None) -> Manifests:
    """Every object of these files; `-` is standard input."""
    if list(paths).count(STANDARD_INPUT) > 1:
        raise ManifestError("standard input can be read only once; give - once")
    manifests = Manifests()
    for path in paths:
        if path == STANDARD_INPUT:
            read_bytes((stdin or sys.stdin.buffer).read(), "standard input", manifests)
        else:
            read_bytes(_content(path), path, manifests)
    return manifests


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise ManifestError(f"{path}: there is no such file; check the path, or give - for standard input") from error
    except IsADirectoryError as error:
        raise ManifestError(
            f"{path} is a directory; give the files in it, such as {path.rstrip('/')}/*.yaml"
        ) from error
    except PermissionError as error:
        raise ManifestError(f"{path}: no permission to read it; check its owner and mode") from error
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path}: cannot be read ({error}); check that it is a file") from error


def read_bytes(data: bytes, source: str, into: Manifests) -> None:
    """Every object of one text; `source` is how messages name it."""
    reader = Reader(source, into)
    found = False
    with _without_garbage_collection():
        for written in _documents(_as_utf8(data, source), source):
            found = True
            reader.take(written)
    if not found:
        raise ManifestError(f"no Kubernetes objects in {source}; it is empty or holds only comments")


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The tree of a big YAML file is no garbage; searching it for some, again and again, takes twice the reading."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _as_utf8(data: bytes, source: str) -> bytes:
    """The text in UTF-8 without a byte order mark; older PowerShells write UTF-16 into files."""
    if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: broken UTF-16; save it as UTF-8") from error


def _documents(data: bytes, source: str) -> Iterable[Written]:
    if data.lstrip()[:1] not in (b"{", b"["):
        return read_yaml(_text(data, source), source)
    try:
        return list(read_json(data))
    except MalformedError as error:
        # A text that is JSON up to where it was cut off is no YAML either, and trying would take long for a big one.
        if error.is_cut_off:
            message = "the text ends too early; was it cut off?"
        else:
            message = error.message.partition(" (byte ")[0].removeprefix("JSON is malformed: ") + "; check it there"
            if len(data) <= _LARGEST_TRIED_AS_YAML:
                with suppress(ManifestError):
                    return list(read_yaml(_text(data, source), source))
        raise ManifestError(f"{source} {_place(data, error.offset or 0)}: bad JSON: {message}") from error


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source} {_place(data, error.start)}: not UTF-8 text; save it as UTF-8") from error


def _place(data: bytes, offset: int) -> str:
    start = data.rfind(b"\n", 0, offset) + 1
    column = len(data[start:offset].decode(errors="replace")) + 1
    return f"line {data.count(10, 0, offset) + 1} column {column}"
