"""Durations as Go and Kubernetes write them: `1h30m`, `90s`, `250ms`."""

import re

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(rf"(-?)((?:{_PART.pattern})+)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class DurationError(ValueError):
    """A text that is not a duration."""


def seconds(text: str, *, may_be_negative: bool = False) -> float:
    """A duration in seconds."""
    if text == "0":
        return 0.0
    whole = _WHOLE.fullmatch(text)
    if not whole or (whole[1] and not may_be_negative):
        raise DurationError(f"{text!r} is no duration; expected such as 30s, 15m or 1h30m")
    length = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return -length if whole[1] else length
