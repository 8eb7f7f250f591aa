"""Errors at any line of Tonnage's code: what is half done then must be undone."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tonnage

_HERE = str(Path(tonnage.__file__).parent)


class InjectedError(Exception):
    """Raised where nobody expects it."""


@contextmanager
def raising_at(line: int) -> Iterator[list[int]]:
    """Count the lines that Tonnage's code runs in the `with` block, and raise once at the one of this number."""
    seen = [0]

    def trace(frame: Any, event: str, _argument: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(_HERE):
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == line:
                raise InjectedError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)
