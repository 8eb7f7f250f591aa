"""Timestamps: RFC 3339 as Kubernetes writes it, and seconds since 1970 as the engine counts.

The engine never reads a clock; its caller passes the current time. Every time that can be read can be written again.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The last second that can be written; a fraction after it is cut off."""
_LONGEST = len("2026-01-31T12:00:00.123456789+00:00")


class TimestampError(ValueError):
    """A text that is not a time."""


def timestamp(text: str) -> float:
    """The seconds since 1970 of a time such as 2026-01-31T12:00:00Z."""
    if len(text) > _LONGEST:
        raise _error(text)
    return _timestamp(text)


@lru_cache(maxsize=4096)
def _timestamp(text: str) -> float:
    try:
        if _RFC3339.fullmatch(text):
            return min(datetime.fromisoformat(text.upper()).astimezone(UTC).timestamp(), LATEST)
    except (ValueError, OverflowError):
        pass
    raise _error(text)


def _error(text: str) -> TimestampError:
    return TimestampError(f"{text[:40]!r} is no time; expected such as 2026-01-31T12:00:00Z")


def known_timestamp(text: str | None) -> float | None:
    """The same, or nothing for a missing or unreadable text."""
    try:
        return timestamp(text) if text else None
    except TimestampError:
        return None


def past_timestamp(text: str | None, now: float) -> float | None:
    """The same, or nothing for a time in the future, too."""
    return past(known_timestamp(text), now)


def past(when: float | None, now: float) -> float | None:
    """A time unless it is in the future: one that a user writes must not keep others waiting until then."""
    return when if when is not None and when <= now else None


def rfc3339(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339, without a fraction."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def rfc3339_micro(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339 with six decimals, which Leases need."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
