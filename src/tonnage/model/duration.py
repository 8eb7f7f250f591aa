"""Durations as Go and Kubernetes write them, read and shown: `1h30m`, `90s`, `250ms`, `289d`."""

import re

from tonnage.model.excerpt import quoted
from tonnage.model.number import LONGEST_NUMBER

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"(-?)((?:{_PART.pattern})+)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST = 2**63 / 1e9
"""The longest duration in seconds, as Go has it: some 292 years."""

_SHOWN = (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1))
"""The units in which durations are shown, each with the next smaller one, in seconds."""
_FINE = 10
"""From so many of a unit on, smaller ones are not shown."""


class DurationError(ValueError):
    """A text that is not a duration."""


def seconds(text: str, *, may_be_negative: bool = False) -> float:
    """A duration in seconds."""
    if text == "0":
        return 0.0
    whole = _WHOLE.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    if not whole or (whole[1] and not may_be_negative):
        raise DurationError(f"{quoted(text)} is no duration; expected such as 30s, 15m or 1h30m")
    length = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if length > LONGEST:
        raise DurationError(f"{quoted(text)} is too long; expected at most 292 years, such as 30s, 15m or 1h30m")
    return -length if whole[1] else length


def format_seconds(length: float) -> str:
    """A duration for people, in its largest unit and the next: 1.5s, 45s, 2m30s, 36m, 1h30m, 1d3h, 289d."""
    if length < 0:
        return f"-{format_seconds(-length)}"
    if length < _FINE:
        return f"{length:.1f}".removesuffix(".0") + "s"
    if length == float("inf"):
        return "for ever"
    whole = round(length)
    for unit, size, lower, lower_size in _SHOWN:
        count, rest = divmod(whole, size)
        if count:
            more = rest // lower_size if count < _FINE else 0
            return f"{count}{unit}" + (f"{more}{lower}" if more else "")
    return f"{whole}s"
