"""A front before an HTTP server, in which requests are held, delayed, refused or lost on the way, as rules say."""

import asyncio
import random
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

from tests.transports import abort_all
from tonnage.lab.program import free_ports

REQUEST, ANSWER = "request", "answer"
_HOP_BY_HOP = frozenset(("host", "content-length", "transfer-encoding", "connection", "keep-alive"))
_LARGEST = 64 * 2**20
_PATIENCE = 30.0


class Rule:
    """What becomes of requests whose method, path and content match, of all of them or of the first `times`."""

    def __init__(
        self,
        method: str,
        path: str,
        *,
        times: int | None = None,
        delay: float = 0.0,
        status: int = 0,
        loses: bool = False,
        applied: bool = False,
        holds: str = "",
        share: float = 1.0,
        says: str = "",
    ) -> None:
        self._method = method
        self._path = re.compile(path)
        self._says = re.compile(says.encode())
        self._left = times
        self._share = share
        self.delay = delay
        """Seconds before a request is passed on."""
        self.status = status
        """Answered in place of the server's answer."""
        self.applied = applied
        """Whether a request that is answered so was passed on all the same."""
        self.loses = loses
        """Whether the connection is cut once the server has answered."""
        self.holds = holds
        """Whether the request or its answer waits until it is let go or dropped."""
        self.reached = threading.Event()
        self.met = 0
        """How many requests it was about."""
        self._decided = threading.Event()
        self._dropped = False

    def takes(self, method: str, path: str, content: bytes = b"") -> bool:
        """Whether the rule is about this request; counts it."""
        if self._left == 0 or self._method not in ("", method) or not self._path.search(path):
            return False
        if not self._says.search(content):
            return False
        if self._share < 1.0 and random.random() >= self._share:
            return False
        if self._left is not None:
            self._left -= 1
        self.met += 1
        return True

    def drop(self) -> None:
        """What is held is never delivered."""
        self._dropped = True
        self._decided.set()

    def let_go(self) -> None:
        """What is held goes on its way."""
        self._decided.set()

    async def goes_on(self) -> bool:
        """Wait until it is decided whether a held message is delivered."""
        self.reached.set()
        deadline = time.monotonic() + _PATIENCE
        while not self._decided.is_set() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        return not self._dropped


class Passed(NamedTuple):
    """A request that was answered: when, what, and after how many seconds."""

    at: float
    path: str
    seconds: float


class Front:
    """Listens on a port of its own and passes on to a server; runs in a thread of its own."""

    def __init__(
        self,
        target: str,
        serves: ssl.SSLContext | None = None,
        trusts: ssl.SSLContext | None = None,
        also_serves: ssl.SSLContext | None = None,
    ) -> None:
        self.target = target
        self.port, self.secure_port = free_ports(2)
        self.passed: list[Passed] = []
        self.stalled = threading.Event()
        """While set, streams deliver nothing, and nobody notices."""
        self._serves, self._trusts, self._also = serves, trusts, also_serves
        self._rules: list[Rule] = []
        self._streams: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    @contextmanager
    def rule(self, rule: Rule) -> Iterator[Rule]:
        """The rule holds inside."""
        self._rules.append(rule)
        try:
            yield rule
        finally:
            self._rules.remove(rule)
            rule.let_go()

    def cut(self) -> int:
        """End all streams in the middle; how many there were."""
        streams = list(self._streams)
        for stream in streams:
            self._loop.call_soon_threadsafe(stream.abort)
        return len(streams)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._trusts or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._serves).start()
        if self._also is not None:
            await web.TCPSite(self._runner, "127.0.0.1", self.secure_port, ssl_context=self._also).start()

    async def _stop(self) -> None:
        for stream in list(self._streams):
            stream.abort()
        await self._session.close()
        await self._runner.cleanup()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        # A connection whose other end does not read any more would never be closed politely.
        await abort_all()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        rule = next((rule for rule in list(self._rules) if rule.takes(request.method, request.path, body)), None)
        started = time.monotonic()
        if rule is not None:
            if rule.delay:
                await asyncio.sleep(rule.delay)
            if rule.holds == REQUEST and not await rule.goes_on():
                return _cut_off(request)
            if rule.status and not rule.applied:
                return _refusal(rule.status)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = URL(f"{self.target}{request.raw_path}", encoded=True)
        try:
            async with self._session.request(request.method, url, data=body, headers=headers) as answer:
                if "watch" in request.query:
                    return await self._stream(request, answer)
                content = await answer.read()
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
                if rule is not None:
                    if rule.loses or (rule.holds == ANSWER and not await rule.goes_on()):
                        return _cut_off(request)
                    if rule.status:
                        return _refusal(rule.status)
                self.passed.append(Passed(started, request.path, time.monotonic() - started))
                return web.Response(status=answer.status, body=content, headers=kept)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return _cut_off(request)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]})
        await response.prepare(request)
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._streams.add(transport)
        try:
            async for chunk in answer.content.iter_any():
                while self.stalled.is_set():
                    await asyncio.sleep(0.01)
                await response.write(chunk)
            await response.write_eof()
        except (aiohttp.ClientError, OSError):
            transport.abort()
        finally:
            self._streams.discard(transport)
        return response


def _refusal(status: int) -> web.Response:
    reason = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 504: "Timeout"}.get(status, "Unknown")
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
    return web.json_response({**said, "message": "the front says no"}, status=status)


def _cut_off(request: web.Request) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
