"""Times as Kubernetes writes them (RFC 3339), and as the engine counts them: seconds since 1970.

This is reading and writing only; what time it is now is told to the engine by whoever uses it.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class TimestampError(ValueError):
    """A text that is no time."""


@lru_cache(maxsize=4096)
def timestamp(text: str) -> float:
    """The seconds since 1970 of a time such as 2026-01-31T12:00:00Z."""
    try:
        if _RFC3339.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        pass
    raise TimestampError(f"{text[:40]!r} is no time; expected such as 2026-01-31T12:00:00Z")


def known_timestamp(text: str | None) -> float | None:
    """The same; nothing if there is no text, or none that is a time."""
    try:
        return timestamp(text) if text else None
    except TimestampError:
        return None


def rfc3339(seconds: float) -> str:
    """A number of seconds since 1970, without their fraction."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def rfc3339_micro(seconds: float) -> str:
    """A number of seconds since 1970, with six digits of their fraction, which Leases need."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
