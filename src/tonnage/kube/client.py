"""The client of the API server: requests and streams of raw bytes.

Objects are decoded elsewhere, into small typed structs, because the clients for Python take dozens of times longer.
Everything runs on the event loop that opened the client.
"""

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from tonnage.kube.access import Access, Credentials
from tonnage.kube.connections import Connections
from tonnage.kube.errors import ConnectionLostError, StatusError, TooLargeError, UnsentError, refusal
from tonnage.kube.ratelimit import RateLimit
from tonnage.model.duration import format_seconds

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
USER_AGENT = "tonnage"
_CONNECT = 10.0
_UNAUTHORIZED, _CONFLICT, _TOO_MANY, _UNAVAILABLE = 401, 409, 429, 503
LARGEST_ANSWER = 64 * 2**20
"""In bytes; a page of usual pods takes some megabytes, and the largest objects about one each."""
_LONGEST_PAUSE = 10.0
"""The longest wait, in seconds, that an API server can ask for."""
_SPREAD = 0.5
"""How much longer than asked for a request may wait, as a part, so that not all come back together."""
_LIMIT_OF_WATCHES = 60.0
"""How long a watch may wait for the rate limit, in seconds."""
_SECONDS = re.compile(r"[0-9]{1,6}")
_NETWORK = (aiohttp.ClientError, asyncio.TimeoutError, OSError)

SUCCESS, REFUSED, CONFLICT, UNKNOWN = "success", "refused", "conflict", "unknown"

Query = Mapping[str, str | int]
Types = tuple[str, str]
"""Content-Type and Accept."""
Observer = Callable[[str, str, float, str], None]
"""Given the method, path, seconds and outcome of a write: success, conflict (409), refused, or unknown."""


class Client:
    """A client of one cluster; must be closed."""

    def __init__(self, access: Access, connections: Connections, limit: RateLimit | None = None) -> None:
        self._access = access
        self._connections = connections
        self._limit = limit
        """How many requests may be sent; a watch counts once, when it is opened."""
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
        """The body of the answer; StatusError for an error status, ConnectionLostError if the outcome is unknown.

        If the API server says when to ask again and has certainly done nothing, the request is sent again, as long as
        the time-out allows. UnsentError if the rate limit does not let it go in that time.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        while True:
            await self._wait_for_limit(method, path, deadline - clock())
            try:
                left = max(deadline - clock(), 0.001)
                return await self._request_once(method, path, query, body, (type_, accept), left)
            except StatusError as error:
                pause = _pause(error, method)
                if pause is None or clock() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)

    async def _request_once(
        self, method: str, path: str, query: Query | None, body: object, types: Types, timeout: float
    ) -> bytes:
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT)
        started, outcome = time.monotonic(), UNKNOWN
        try:
            async with self._answer(method, path, query, body, types, limits) as response:
                answer = await _body(response, f"{method} {path}")
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
        await self._wait_for_limit("GET", path, _LIMIT_OF_WATCHES)
        async with self._answer("GET", path, query, None, (JSON, JSON), limits) as response:
            yield response.content.iter_any()

    @property
    def unlimited(self) -> "Client":
        """The same client without the rate limit, for leader election; only the other one is closed."""
        made = Client(self._access, self._connections)
        made.observer = lambda *write: self.observer(*write) if self.observer is not None else None
        return made

    async def close(self) -> None:
        await self._connections.close()

    async def _wait_for_limit(self, method: str, path: str, seconds: float) -> None:
        if self._limit is not None and not await self._limit.take(seconds):
            raise UnsentError(f"{method} {path}: not sent within {format_seconds(seconds)} because of --kube-qps")

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, query: Query | None, body: object, types: Types, limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        # Encoded already: the path is sent as it was built.
        url = URL(f"{self.server}{path}?{urlencode(query)}" if query else f"{self.server}{path}", encoded=True)
        data = None if body is None else msgspec.json.encode(body)
        try:
            used = await self._access.credentials()
            response = await self._send(used, method, url, data, types, limits)
            if response.status == _UNAUTHORIZED:
                response.release()
                response = await self._send(await self._access.renew(used), method, url, data, types, limits)
            try:
                if response.status >= 400:
                    said = await _body(response, f"{method} {path}")
                    raise refusal(said, response.status, response.reason or "", _retry_after(response))
                yield response
            finally:
                _cut(response)
        except _NETWORK as error:
            raise ConnectionLostError(f"{method} {path}: {_words(error)}") from error

    async def _send(
        self,
        credentials: Credentials,
        method: str,
        url: URL,
        data: bytes | None,
        types: Types,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = {
            "Accept": types[1],
            # Compression costs both sides more than the network does.
            "Accept-Encoding": "identity",
            "Content-Type": types[0],
            "User-Agent": USER_AGENT,
            **credentials.headers,
        }
        return await self._connections.send(credentials, method, url, headers, data, limits)


async def connect(kubeconfig: str | None = None, context: str | None = None, limit: RateLimit | None = None) -> Client:
    """A client for the cluster of a kubeconfig file, or of the pod around this process; AccessError with advice."""
    access = Access(kubeconfig, context)
    await access.open()
    return Client(access, Connections(access), limit)


def _cut(response: aiohttp.ClientResponse) -> None:
    """End an answer, also an endless one; a connection whose answer was read to its end is reused."""
    if response.connection is not None and response.connection.transport is not None:
        # Without a TLS shutdown, which would have to be awaited.
        response.connection.transport.abort()
    response.close()


async def _body(response: aiohttp.ClientResponse, asked: str) -> bytes:
    """The whole body; TooLargeError as soon as it is larger than an answer may be."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > LARGEST_ANSWER:
            raise TooLargeError(f"{asked}: the answer is larger than {LARGEST_ANSWER // 2**20} MiB")
        parts.append(part)
    return b"".join(parts)


def _retry_after(response: aiohttp.ClientResponse) -> float:
    """The seconds in an answer's Retry-After, up to the longest pause; 0 if it has none."""
    told = response.headers.get("Retry-After", "").strip()
    return min(float(told), _LONGEST_PAUSE) if _SECONDS.fullmatch(told) else 0.0


def _pause(error: StatusError, method: str) -> float | None:
    """Seconds to wait before the request is sent again; None if it must not be.

    429 means that the API server has not begun with it; after 503 a write may have happened.
    """
    may_repeat = error.status == _TOO_MANY or (error.status == _UNAVAILABLE and method == "GET")
    if not may_repeat or not error.retry_after:
        return None
    return error.retry_after * (1 + _SPREAD * random.random())


def _outcome(error: StatusError) -> str:
    if error.status == _CONFLICT:
        return CONFLICT
    return REFUSED if error.is_definite else UNKNOWN


def _words(error: BaseException) -> str:
    return f"{error}" or type(error).__name__
