"""LightServer answers a few paths, and nothing that peers send or leave out stops it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.waiting import until_true
from tonnage.server import lightserver
from tonnage.server.lightserver import CONNECTIONS, HEAD_BYTES, LightPage, LightServer, text_page


async def fine() -> LightPage:
    return text_page("ok")


async def broken() -> LightPage:
    raise RuntimeError("no page")


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[LightServer]:
    server = LightServer({"/livez": fine, "/broken": broken})
    task = asyncio.ensure_future(server.run("127.0.0.1", port))
    try:
        if not port:
            await until_true(lambda: server.port)
        yield server
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def sent(server: LightServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        with suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        with suppress(ConnectionError):
            return await reader.read()
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_", "status", "end"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", b"200 OK", b"\r\n\r\nok\n"),
        (b"GET /livez?verbose HTTP/1.0\r\n\r\n", b"200 OK", b"\r\n\r\nok\n"),
        (b"HEAD /livez HTTP/1.1\r\n\r\n", b"200 OK", b"Connection: close\r\n\r\n"),
        (b"GET /else HTTP/1.1\r\n\r\n", b"404 Not Found", b"there are /livez, /broken\n"),
        (b"POST /livez HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", b"only GET and HEAD are answered\n"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500 Internal Server Error", b"the log says why\n"),
        (b"\x16\x03\x01 nonsense\r\n\r\n", b"400 Bad Request", b"this is no HTTP/1.1 request\n"),
        (b"GET /" + b"a" * (2 * HEAD_BYTES), b"431 Request Header Fields Too Large", b"too large\n"),
    ],
)
def test_requests_get_their_answers(request_: bytes, status: bytes, end: bytes) -> None:
    async def scene() -> None:
        async with serving() as server:
            answer = await sent(server, request_)
            assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
            assert answer.endswith(end)

    asyncio.run(scene())


def test_silent_peers_keep_nobody_out_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightserver, "SECONDS", 0.2)

    async def scene() -> None:
        async with serving() as server:
            silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(CONNECTIONS + 8)]
            for reader, writer in silent:
                assert await reader.read() == b""
                writer.close()
            assert b"200 OK" in await sent(server, b"GET /livez HTTP/1.1\r\n\r\n")

    asyncio.run(scene())


def test_an_address_that_is_taken_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightserver, "LISTEN_AGAIN", 0.01)

    async def scene() -> None:
        async with serving() as first:
            taken = first.port
            later = LightServer({"/livez": fine})
            task = asyncio.ensure_future(later.run("127.0.0.1", taken))
            await asyncio.sleep(0.05)
            assert not later.port
        await until_true(lambda: later.port == taken)
        assert b"200 OK" in await sent(later, b"GET /livez HTTP/1.1\r\n\r\n")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(scene())
