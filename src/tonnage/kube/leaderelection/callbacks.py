"""Callbacks of a replica that starts and stops leading."""

from collections.abc import Awaitable, Callable

import msgspec


class LeaderCallbacks(msgspec.Struct, frozen=True):
    """What a program does around leading; whoever watches the Lease calls it."""

    prepare: Callable[[], Awaitable[None]]
    """List the cluster afresh; awaited before this replica leads."""
    on_started_leading: Callable[[], None]
    """Decide from now on."""
    on_stopped_leading: Callable[[], None]
    """Give up what was decided and is not being written yet."""
    is_idle: Callable[[], bool]
    """Whether every write that was begun has its answer."""
