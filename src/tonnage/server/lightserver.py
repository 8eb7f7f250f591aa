"""LightServer: a few pages over HTTP for processes that must stay small, such as probes and metrics.

It answers GET and HEAD of exact paths, one request per connection, with limits on their number, size and time. The
servers of the cluster use `http`, which brings more and weighs more.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

log = logging.getLogger(__name__)

CONNECTIONS = 64
"""At once; further ones are hung up on."""
HEAD_BYTES = 16 * 2**10
SECONDS = 10.0
"""For the head of a request, and for the peer to take the answer."""
LISTEN_AGAIN = 5.0
"""Seconds between two attempts to listen at an address that is taken."""
_TEXT = "text/plain; charset=utf-8"
_PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class LightPage(NamedTuple):
    """An answer."""

    content: bytes
    status: int = 200
    type: str = _TEXT


def text_page(text: str, status: int = 200) -> LightPage:
    """A page of plain text."""
    return LightPage(f"{text}\n".encode(), status)


class LightServer:
    """Serves pages by their paths."""

    def __init__(self, pages: Mapping[str, Callable[[], Awaitable[LightPage]]]) -> None:
        self._pages = pages
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0
        """Where it listens; 0 while it does not."""

    async def run(self, host: str, port: int) -> None:
        """Serve until cancelled; an address that is taken is tried again and again."""
        while True:
            try:
                server = await asyncio.start_server(self._connected, host or None, port, limit=HEAD_BYTES)
            except OSError as error:
                log.error("cannot listen at %s:%s and try again: %s", host, port, error.strerror or error)
                await asyncio.sleep(LISTEN_AGAIN)
                continue
            self.port = server.sockets[0].getsockname()[1]
            try:
                await server.serve_forever()
            finally:
                server.close()
                for task in self._open:
                    task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._open) < CONNECTIONS:
                self._open.add(task)
                with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                    await self._answer(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(SECONDS):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                head = b""
        method, page = await self._page(head)
        writer.write(_head(page) + (b"" if method == b"HEAD" else page.content))
        async with asyncio.timeout(SECONDS):
            await writer.drain()

    async def _page(self, head: bytes) -> tuple[bytes, LightPage]:
        if not head:
            return b"", text_page("the head of the request is too large", 431)
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return b"", text_page("this is no HTTP/1.1 request", 400)
        method, path = words[0], words[1].partition(b"?")[0]
        found = self._pages.get(path.decode("latin-1"))
        if found is None:
            return method, text_page(f"there are {', '.join(self._pages)}", 404)
        if method not in (b"GET", b"HEAD"):
            return method, text_page("only GET and HEAD are answered", 405)
        try:
            return method, await found()
        except Exception:
            log.exception("a page could not be made: %s", path.decode("latin-1"))
            return method, text_page("the page could not be made; the log says why", 500)


def _head(page: LightPage) -> bytes:
    lines = (
        f"HTTP/1.1 {page.status} {_PHRASES[page.status]}",
        f"Content-Type: {page.type}",
        f"Content-Length: {len(page.content)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode()
