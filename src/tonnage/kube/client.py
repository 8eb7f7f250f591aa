"""The client of the API server: requests and streams of raw bytes over the official client's connections.

The official client connects and authenticates. Tonnage decodes objects itself, because the official client takes dozens
of times longer. Everything runs on the event loop that opened the client.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp

from tonnage.kube.access import Access, Transport
from tonnage.kube.errors import ConnectionLostError, StatusError, refusal

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
USER_AGENT = "tonnage"
_CONNECT = 10.0
_UNAUTHORIZED, _CONFLICT = 401, 409
_NETWORK = (aiohttp.ClientError, asyncio.TimeoutError, OSError)

SUCCESS, REFUSED, CONFLICT, UNKNOWN = "success", "refused", "conflict", "unknown"

Query = Mapping[str, str | int]
Types = tuple[str, str]
"""Content-Type and Accept."""
Observer = Callable[[str, str, float, str], None]
"""Given the method, path, seconds and outcome of a write: success, conflict (409), refused, or unknown."""


class Client:
    """A client of one cluster; must be closed."""

    def __init__(self, access: Access, transport: Transport) -> None:
        self._access = access
        self._transport = transport
        self.observer: Observer | None = None

    @property
    def server(self) -> str:
        return self._access.server

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        type_: str = JSON,
        accept: str = JSON,
        timeout: float = 30.0,
    ) -> bytes:
        """The body of the answer; StatusError for an error status, ConnectionLostError if the outcome is unknown."""
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT)
        started, outcome = time.monotonic(), UNKNOWN
        try:
            async with self._answer(method, path, query, body, (type_, accept), limits) as response:
                answer = await response.read()
            outcome = SUCCESS
            return answer
        except StatusError as error:
            outcome = _outcome(error)
            raise
        finally:
            if self.observer is not None and method != "GET":
                self.observer(method, path, time.monotonic() - started, outcome)

    async def get(self, path: str, query: Query | None = None, timeout: float = 60.0, accept: str = JSON) -> bytes:
        return await self.request("GET", path, query=query, timeout=timeout, accept=accept)

    @asynccontextmanager
    async def stream(self, path: str, query: Query, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of an endless answer; ConnectionLostError when it breaks or is silent for that many seconds."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=silence)
        async with self._answer("GET", path, query, None, (JSON, JSON), limits) as response:
            yield response.content.iter_any()

    async def close(self) -> None:
        await self._transport.close()

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, query: Query | None, body: object, types: Types, limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = f"{self.server}{path}?{urlencode(query)}" if query else f"{self.server}{path}"
        try:
            response = await self._send(method, url, body, types, limits)
            if response.status == _UNAUTHORIZED:
                response.release()
                await self._access.renew()
                response = await self._send(method, url, body, types, limits)
            try:
                if response.status >= 400:
                    raise refusal(await response.read(), response.status, response.reason or "")
                yield response
            finally:
                _cut(response)
        except _NETWORK as error:
            raise ConnectionLostError(f"{method} {path}: {_words(error)}") from error

    async def _send(
        self, method: str, url: str, body: object, types: Types, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = {
            "Accept": types[1],
            # Compression costs both sides more than the network does.
            "Accept-Encoding": "identity",
            "Content-Type": types[0],
            "User-Agent": USER_AGENT,
            **await self._access.headers(),
        }
        answer: Any = await self._transport.request(  # type: ignore[no-untyped-call]
            method, url, headers, body, _request_timeout=limits
        )
        response: aiohttp.ClientResponse = answer.response
        return response


async def connect(kubeconfig: str | None = None, context: str | None = None) -> Client:
    """A client for the cluster of a kubeconfig file, or of the pod around this process; AccessError with advice."""
    access = Access(kubeconfig, context)
    return Client(access, await access.open())


def _cut(response: aiohttp.ClientResponse) -> None:
    """End an answer, also an endless one; a connection whose answer was read to its end is reused."""
    if response.connection is not None and response.connection.transport is not None:
        # Without a TLS shutdown, which would have to be awaited.
        response.connection.transport.abort()
    response.close()


def _outcome(error: StatusError) -> str:
    if error.status == _CONFLICT:
        return CONFLICT
    return REFUSED if error.is_definite else UNKNOWN


def _words(error: BaseException) -> str:
    return f"{error}" or type(error).__name__
