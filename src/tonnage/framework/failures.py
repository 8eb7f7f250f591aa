"""Failures of plugins in words: the error, and the file and line where it happened."""

from collections.abc import Callable
from types import TracebackType
from typing import Any

_OURS = __name__.partition(".")[0]


def failure(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """An error with its place in the plugin; without one, that of the function that was called."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    place = place_of_error(error) or place_of_function(function)
    words = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{words} ({place})" if place else words


def place_of_error(error: BaseException) -> str:
    """File and line where a plugin raised an error or called what did; empty if no code of a plugin was under way."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = _frames(error.__traceback__)
    file = frames[0][0] if frames else ""
    return next((f"{name}:{line}" for name, line in reversed(frames) if name == file), "")


def place_of_function(function: Callable[..., Any] | None) -> str:
    """File and line where a function is defined; empty if that cannot be said."""
    inner: Any = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = getattr(getattr(inner, "__func__", inner), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    """File and line of each frame that is neither Tonnage's nor the import machinery's, from the outside in."""
    found = []
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        code = trace.tb_frame.f_code
        if module.partition(".")[0] not in (_OURS, "importlib") and not code.co_filename.startswith("<frozen"):
            found.append((code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found
