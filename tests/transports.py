"""The end of an event loop: every socket is closed, also one that was just accepted or whose peer says nothing."""

import asyncio


async def abort_all() -> None:
    """Close all connections of the running event loop at once.

    A connection that is still being accepted belongs to nobody yet, so asyncio alone knows of it.
    """
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while left := [one for one in tuple(loop._transports.values()) if one._sock is not None]:  # type: ignore[attr-defined]
        for transport in left:
            transport.abort()
        await asyncio.sleep(0)
