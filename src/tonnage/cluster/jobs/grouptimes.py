"""What a PodGroup says about time, in KAI's words: when things happened to it, and how long to wait."""

from collections.abc import Mapping

import msgspec

from tonnage.model.duration import seconds
from tonnage.model.timestamp import known_timestamp

LAST_START = "kai.scheduler/last-start-timestamp"
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"


class GroupTimes(msgspec.Struct, gc=False, frozen=True):
    """Moments in seconds since 1970, nothing if nobody says; and how long to wait, in seconds."""

    started: float | None = None
    evicted: float | None = None
    stale_since: float | None = None
    """Since when it has run with fewer pods than its minimum."""
    preemption_delay: float = 0.0
    """How long it waits after it came or was evicted before others may be stopped for it."""
    grace: float | None = None
    """How long it may run with fewer pods than its minimum; below 0 for ever; nothing if it does not say."""
    unreadable: tuple[str, ...] = ()
    """Annotations that are no times."""


def read_times(annotations: Mapping[str, str], delay: str | None = None, grace: str | None = None) -> GroupTimes:
    """What annotations and durations say; the durations must be readable."""
    said = {name: known_timestamp(annotations.get(name)) for name in (LAST_START, LAST_EVICTION, STALE_SINCE)}
    return GroupTimes(
        said[LAST_START],
        said[LAST_EVICTION],
        said[STALE_SINCE],
        seconds(delay) if delay is not None else 0.0,
        seconds(grace, may_be_negative=True) if grace is not None else None,
        tuple(name for name, when in said.items() if when is None and annotations.get(name)),
    )
