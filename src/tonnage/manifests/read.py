"""The reader of manifests as kubectl prints them: a list, single objects or several documents, in JSON or YAML.

A file that cannot be read raises ManifestError. A fault of one object is a Problem with the object's name and line, and
never hides other objects. Kinds that Tonnage does not use are counted.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from tonnage.manifests.content import as_text, as_utf8, file_content, files_in, place
from tonnage.manifests.json_text import read_json
from tonnage.manifests.objects import Manifests, Reader
from tonnage.manifests.written import ManifestError, TextError, Written
from tonnage.manifests.yaml_text import read_yaml
from tonnage.model.wire import MalformedError

__all__ = ["ManifestError", "Manifests", "read_bytes", "read_files"]

STANDARD_INPUT = "-"
_LARGEST_TRIED_AS_YAML = 10_000_000
"""Bytes up to which a text that begins like JSON but is invalid is tried as YAML; nobody writes longer ones."""


def read_files(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    recursive: bool = False,
    reader: Callable[[str, Manifests], Reader] = Reader,
) -> Manifests:
    """Every object of these files and of the files in these folders; `-` is standard input."""
    if list(paths).count(STANDARD_INPUT) > 1:
        raise ManifestError("standard input can be read only once; give - once")
    manifests = Manifests()
    for path in paths:
        if path == STANDARD_INPUT:
            read_bytes((stdin or sys.stdin.buffer).read(), "standard input", manifests, reader)
        elif os.path.isdir(path):
            for file in files_in(path, recursive=recursive):
                read_bytes(file_content(file), file, manifests, reader)
        else:
            read_bytes(file_content(path), path, manifests, reader)
    return manifests


def read_bytes(
    data: bytes, source: str, into: Manifests, make_reader: Callable[[str, Manifests], Reader] = Reader
) -> None:
    """Every object of one text; messages name it by `source`."""
    reader = make_reader(source, into)
    found = False
    with _without_garbage_collection():
        for written in _documents(as_utf8(data, source), source):
            found = True
            reader.take(written)
    if not found:
        raise ManifestError(f"no Kubernetes objects in {source}; it is empty or holds only comments")


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection, which would traverse the tree of a big YAML file again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _documents(data: bytes, source: str) -> Iterable[Written]:
    if data.lstrip()[:1] not in (b"{", b"["):
        return read_yaml(as_text(data, source), source)
    try:
        return list(read_json(data))
    except MalformedError as error:
        # JSON that was cut off is no YAML either, and trying would take long for a big file.
        if error.is_cut_off:
            message = "the text ends too early; was it cut off?"
        else:
            message = error.message.partition(" (byte ")[0].removeprefix("JSON is malformed: ") + "; check it there"
            if len(data) <= _LARGEST_TRIED_AS_YAML:
                with suppress(ManifestError):
                    return list(read_yaml(as_text(data, source), source))
        raise TextError(source, *place(data, error.offset or 0), f"bad JSON: {message}") from error
