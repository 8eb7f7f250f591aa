"""The fence that says until when this process may write, and the client that keeps to it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Any

from tonnage.kube.client import Client, Query
from tonnage.kube.errors import KubeError

Fence = Callable[[], tuple[float, float]]
"""For how many seconds writes are still allowed, and the least for which one is begun."""


def always() -> tuple[float, float]:
    """Writes are always allowed."""
    return inf, 0.0


class FencedError(KubeError):
    """A write was not begun, because this replica does not lead."""


class FencedClient(Client):
    """A client that begins writes only while the fence allows them, and gives them no more time than that."""

    def __init__(self, client: Client, fence: Fence) -> None:
        self._client = client
        self._fence = fence
        self.unanswered = 0
        """Writes that were begun and have no answer yet."""

    @property
    def server(self) -> str:
        return self._client.server

    async def request(self, method: str, path: str, *, timeout: float = 30.0, **more: Any) -> bytes:
        """Send a request through the inner client; FencedError if the fence does not allow a write now."""
        if method == "GET":
            return await self._client.request(method, path, timeout=timeout, **more)
        left, least = self._fence()
        if left < least:
            raise FencedError("this replica does not lead")
        self.unanswered += 1
        try:
            return await self._client.request(method, path, timeout=min(timeout, left), **more)
        finally:
            self.unanswered -= 1

    @asynccontextmanager
    async def stream(self, path: str, query: Query, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._client.stream(path, query, silence) as chunks:
            yield chunks

    async def close(self) -> None:
        await self._client.close()
