"""Floods of one server, from a process of their own: flooding.py KIND HOST PORT SECONDS."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

_MB = 2**20
HEAD = b"POST /webhook HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


class Target:
    """Where a flood goes, and until when."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self._host, self._port = host, port
        self._end = time.monotonic() + seconds

    @property
    def is_on(self) -> bool:
        return time.monotonic() < self._end

    async def sent(self, data: bytes, times: int = 1, pause: float = 0.0, reads: bool = True) -> None:
        """Send the same again and again on one connection, until it breaks or the flood is over."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        draining = asyncio.create_task(_read(reader)) if reads else None
        try:
            for _ in range(times):
                if not self.is_on or writer.is_closing():
                    break
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(pause)
            if pause:
                while self.is_on and not reader.at_eof():
                    await asyncio.sleep(0.2)
        finally:
            writer.transport.abort()
            if draining is not None:
                draining.cancel()


async def _read(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(65536):
            pass


async def _again(target: Target, count: int, work: Callable[[], Awaitable[None]]) -> None:
    """So many at once, each anew when it ends."""

    async def one() -> None:
        while target.is_on:
            with suppress(OSError):
                await work()
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(count)))


KINDS: dict[str, Callable[[Target], Awaitable[None]]] = {
    "silent": lambda target: _again(target, 600, lambda: target.sent(b"", pause=0.5)),
    "slow heads": lambda target: _again(target, 300, lambda: target.sent(b"X", 1000, pause=0.2)),
    "large heads": lambda target: _again(target, 8, lambda: target.sent(b"GET / HTTP/1.1\r\nX: " + b"y" * _MB, 40)),
    "large bodies": lambda target: _again(
        target, 16, lambda: target.sent(HEAD + b"Content-Length: 8000000\r\n\r\n" + b'{"x":"' + b"y" * 7_900_000)
    ),
    "whole large bodies": lambda target: _again(
        target, 4, lambda: target.sent(HEAD + b"Content-Length: 8000000\r\n\r\n" + b"[" * 8_000_000, pause=0.5)
    ),
    "chunks": lambda target: _again(
        target,
        8,
        lambda: target.sent(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % _MB + b"y" * _MB + b"\r\n", 40),
    ),
    "requests ahead": lambda target: _again(
        target, 8, lambda: target.sent(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 10_000, 10)
    ),
    "unread answers": lambda target: _again(
        target, 100, lambda: target.sent(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 5, 10_000, reads=False)
    ),
    "verbs of strangers": lambda target: _again(
        target, 20, lambda: target.sent(HEAD.replace(b"webhook", b"filter") + b"Content-Length: 2\r\n\r\n{}", 1000)
    ),
}


if __name__ == "__main__":
    kind, host, port, seconds = sys.argv[1:]
    asyncio.run(KINDS[kind](Target(host, int(port), float(seconds))))  # type: ignore[arg-type]
