"""What a replica does when it comes to lead, and when it ceases to."""

from collections.abc import Awaitable, Callable

import msgspec


class LeaderCallbacks(msgspec.Struct, frozen=True):
    """What a door does for whoever finds out that it leads."""

    prepare: Callable[[], Awaitable[None]]
    """List the cluster afresh."""
    begin: Callable[[], None]
    """Decide from now on."""
    cease: Callable[[], None]
    """Give up what was decided and is not being written yet."""
    is_idle: Callable[[], bool]
    """Whether no write that was begun is without an answer."""
