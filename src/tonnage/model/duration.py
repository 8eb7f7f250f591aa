"""Durations as Go and Kubernetes write them: `1h30m`, `90s`, `250ms`."""

import re

from tonnage.model.excerpt import quoted
from tonnage.model.number import LONGEST_NUMBER

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"(-?)((?:{_PART.pattern})+)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST = 2**63 / 1e9
"""The longest duration in seconds, as Go has it: some 292 years."""


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
