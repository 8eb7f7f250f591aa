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
from urllib.parse import urlencode, urlsplit

import msgspec

from tonnage.kube.access import Access, Credentials
from tonnage.kube.errors import AccessError, ConnectionLostError, StatusError, TooLargeError, UnsentError, refusal
from tonnage.kube.http.answer import Answer, BodyTooLargeError
from tonnage.kube.http.dialer import PROXIES, Dialer, proxy_from_environment
from tonnage.kube.http.pool import ConnectionPool
from tonnage.kube.http.request import encode_request, header_lines
from tonnage.kube.ratelimit import RateLimit
from tonnage.model.duration import format_seconds

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
USER_AGENT = "tonnage"
_ERRORS = 400
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

SUCCESS, REFUSED, CONFLICT, UNKNOWN = "success", "refused", "conflict", "unknown"

Query = Mapping[str, str | int]
Types = tuple[str, str]
"""Content-Type and Accept."""
Observer = Callable[[str, str, float, str], None]
"""Given the method, path, seconds and outcome of a write: success, conflict (409), refused, or unknown."""


class Client:
    """A client of one cluster; must be closed."""

    def __init__(self, access: Access, dialer: Dialer, pool: ConnectionPool, limit: RateLimit | None = None) -> None:
        self._access = access
        self._dialer = dialer
        self._pool = pool
        self._limit = limit
        """How many requests may be sent; a watch counts once, when it is opened."""
        self._lines: dict[Types, str] = {}
        """The header lines that are sent with the present credentials."""
        self._lines_of: Credentials | None = None
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
        started, outcome = time.monotonic(), UNKNOWN
        try:
            said = await self._fetch(method, _target(path, query), body, types, timeout)
            outcome = SUCCESS
            return said
        except StatusError as error:
            outcome = _outcome(error)
            raise
        except BodyTooLargeError as error:
            raise _too_large(method, path) from error
        except OSError as error:
            raise _lost(method, path, error) from error
        finally:
            if self.observer is not None and method != "GET":
                self.observer(method, path, time.monotonic() - started, outcome)

    async def _fetch(self, method: str, target: str, body: object, types: Types, timeout: float) -> bytes:
        data = None if body is None else msgspec.json.encode(body)
        used = await self._access.credentials()
        for is_last in (False, True):
            request = self._encoded(used, method, target, types, data)
            async with asyncio.timeout(timeout):
                answer, said = await self._pool.fetch(request, method == "GET", LARGEST_ANSWER)
            if answer.status < _ERRORS:
                return said
            if answer.status != _UNAUTHORIZED or is_last:
                break
            used = await self._access.renew(used)
        raise refusal(said, answer.status, answer.reason, _retry_after(answer))

    async def get(self, path: str, query: Query | None = None, timeout: float = 60.0, accept: str = JSON) -> bytes:
        return await self.request("GET", path, query=query, timeout=timeout, accept=accept)

    @asynccontextmanager
    async def stream(self, path: str, query: Query, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of an endless answer; ConnectionLostError when it breaks or is silent for that many seconds."""
        await self._wait_for_limit("GET", path, _LIMIT_OF_WATCHES)
        target = _target(path, query)
        try:
            used = await self._access.credentials()
            for is_last in (False, True):
                request = self._encoded(used, "GET", target, (JSON, JSON), None)
                async with self._pool.stream(request, silence) as answer:
                    if answer.status < _ERRORS:
                        yield answer.chunks()
                        return
                    said = await answer.body(LARGEST_ANSWER)
                if answer.status != _UNAUTHORIZED or is_last:
                    break
                used = await self._access.renew(used)
            raise refusal(said, answer.status, answer.reason, _retry_after(answer))
        except BodyTooLargeError as error:
            raise _too_large("GET", path) from error
        except OSError as error:
            raise _lost("GET", path, error) from error

    @property
    def unlimited(self) -> "Client":
        """The same client without the rate limit, for leader election; only the other one is closed."""
        made = Client(self._access, self._dialer, self._pool)
        made.observer = lambda *write: self.observer(*write) if self.observer is not None else None
        return made

    async def close(self) -> None:
        await self._pool.close()

    async def _wait_for_limit(self, method: str, path: str, seconds: float) -> None:
        if self._limit is not None and not await self._limit.take(seconds):
            raise UnsentError(f"{method} {path}: not sent within {format_seconds(seconds)} because of --kube-qps")

    def _encoded(self, used: Credentials, method: str, target: str, types: Types, data: bytes | None) -> bytes:
        """A request as it is sent with these credentials, which are those of connections from now on."""
        self._pool.trust(used.tls, used.fingerprint)
        if used is not self._lines_of:
            self._lines, self._lines_of = {}, used
        lines = self._lines.get(types)
        if lines is None:
            lines = self._lines[types] = self._header_lines(used, types)
        return encode_request(method, self._dialer.prefix + target, lines, data)

    def _header_lines(self, used: Credentials, types: Types) -> str:
        headers = {
            "Host": self._dialer.host,
            "Accept": types[1],
            # Compression costs both sides more than the network does.
            "Accept-Encoding": "identity",
            "Content-Type": types[0],
            "User-Agent": USER_AGENT,
            **used.headers,
        }
        try:
            return header_lines(headers) + self._dialer.headers
        except ValueError as error:
            raise AccessError(f"the credentials cannot be sent: {error}") from error


async def connect(kubeconfig: str | None = None, context: str | None = None, limit: RateLimit | None = None) -> Client:
    """A client for the cluster of a kubeconfig file, or of the pod around this process; AccessError with advice."""
    access = Access(kubeconfig, context)
    await access.open()
    if access.proxy is not None and urlsplit(access.proxy).scheme not in PROXIES:
        raise AccessError(f"the proxy {access.proxy} is not supported; its address must begin with http or https")
    dialer = Dialer(access.server, access.server_name, access.proxy or proxy_from_environment(access.server))
    return Client(access, dialer, ConnectionPool(dialer), limit)


def _target(path: str, query: Query | None) -> str:
    # Encoded already: the path is sent as it was built.
    return f"{path}?{urlencode(query)}" if query else path


def _lost(method: str, path: str, error: OSError) -> ConnectionLostError:
    return ConnectionLostError(f"{method} {path}: {error}" if str(error) else f"{method} {path}: no answer in time")


def _too_large(method: str, path: str) -> TooLargeError:
    return TooLargeError(f"{method} {path}: the answer is larger than {LARGEST_ANSWER // 2**20} MiB")


def _retry_after(answer: Answer) -> float:
    """The seconds in an answer's Retry-After, up to the longest pause; 0 if it has none."""
    told = answer.headers.get("retry-after", "").strip()
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
