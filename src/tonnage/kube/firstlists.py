"""The first lists of a starting process: requested before anything is imported that can read them.

Importing the engine takes a scheduler longer than all else at its start. The API server makes its lists meanwhile; the
answers wait here as bytes for the reflectors. Watches wait too, until the first pods are decided about: each takes a
connection.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from math import inf

from tonnage.kube.client import Client, Query
from tonnage.kube.errors import KubeError

PAGE = 500
"""Objects per page of a list."""
_LOOK_SECONDS = 1.0
"""How long the lists wait for the look at the Lease."""
_WATCH_SECONDS = 1.0
"""After how many seconds watches begin at the latest."""


class FirstLists:
    """The first pages of lists, on their way; must be closed."""

    def __init__(self, client: Client, paths: Iterable[str], look: Callable[[], Awaitable[None]] | None = None) -> None:
        """`look` reads the Lease, which comes before the lists: they are complete if nobody has led since."""
        self._client = client
        self._begin = asyncio.create_task(self._look(look))
        self._pages = {path: asyncio.create_task(self._page(path)) for path in paths}
        self._may_watch = asyncio.Event()
        self.began = inf
        """When the first list was asked for, by the monotonic clock."""

    async def get(self, path: str, query: Query) -> bytes:
        """The body of a list, asked for already or now; KubeError as from a client."""
        page = self._pages.pop(path, None) if query == {"limit": PAGE} else None
        return await (self._client.get(path, query) if page is None else page)

    async def until_watches(self) -> None:
        """Wait until watches may begin."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_SECONDS):
                await self._may_watch.wait()

    def begin_watches(self) -> None:
        self._may_watch.set()

    async def close(self) -> None:
        """Give up what nobody has asked for."""
        tasks = [self._begin, *self._pages.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, look: Callable[[], Awaitable[None]] | None) -> None:
        if look is not None:
            # The elector looks again, and says what is wrong.
            with suppress(KubeError, TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await look()
        self.began = time.monotonic()

    async def _page(self, path: str) -> bytes:
        await asyncio.shield(self._begin)
        return await self._client.get(path, {"limit": PAGE})
