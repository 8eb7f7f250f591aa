"""Timestamps: RFC 3339 as Kubernetes writes it, and seconds since 1970 as the engine counts.

The engine never reads a clock; its caller passes the current time.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class TimestampError(ValueError):
    """A text that is not a time."""


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
    """The same, or nothing for a missing or unreadable text."""
    try:
        return timestamp(text) if text else None
    except TimestampError:
        return None


def rfc3339(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339, without a fraction."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def rfc3339_micro(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339 with six decimals, which Leases need."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
