"""Peers of a server in a test: those at 127.0.0.1 are loopback peers, and those at 127.0.0.9 play strangers."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_network
from typing import Any
from unittest.mock import patch

from tests.server.listening import until_listening
from tests.waiting import PATIENCE
from tonnage.lab.program import free_ports
from tonnage.server import callers
from tonnage.server.endpoint import Endpoint
from tonnage.server.http import serve

LOOPBACK, STRANGER = "127.0.0.1", "127.0.0.9"


@contextmanager
def strangers_at_hand() -> Iterator[None]:
    """Only one of the loopback addresses counts as one."""
    callers.is_loopback.cache_clear()
    try:
        with patch.object(callers, "LOOPBACK", (ip_network(f"{LOOPBACK}/32"),)):
            yield
    finally:
        callers.is_loopback.cache_clear()


@asynccontextmanager
async def serving(app: Any, **tls: Any) -> AsyncIterator[int]:
    """The port of an application while it is served."""
    (port,) = free_ports(1)
    stop = asyncio.Event()
    with strangers_at_hand():
        task = asyncio.create_task(serve([(app, Endpoint(LOOPBACK, port, **tls))], stop))
        try:
            await until_listening(port)
            yield port
        finally:
            stop.set()
            await asyncio.wait_for(task, PATIENCE)


class Peer:
    """One connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def rest(self) -> bytes:
        """What the server says until it hangs up."""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                return await self.reader.read()
        return b""

    async def answer(self) -> bytes:
        """The head of the next answer, and its body if it has a length."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    return head + await self.reader.readexactly(int(line.split(b":")[1]))
        return head

    def close(self) -> None:
        self.writer.close()


async def connected(port: int, address: str = STRANGER, tls: ssl.SSLContext | None = None) -> Peer:
    found = await asyncio.open_connection(LOOPBACK, port, local_addr=(address, 0), ssl=tls)
    return Peer(*found)


def head(path: str, method: str = "GET", **headers: object) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        *(f"{name.replace('_', '-')}: {headers[name]}" for name in headers),
    ]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


async def asked(port: int, request: bytes, address: str = STRANGER, tls: ssl.SSLContext | None = None) -> bytes:
    """The answer to one request on a connection of its own."""
    peer = await connected(port, address, tls)
    try:
        peer.send(request)
        return await peer.answer()
    finally:
        peer.close()
