"""A wire that can be cut: passes bytes between clients and the API server until it is told not to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Wire:
    """Connections that go through here."""

    def __init__(self, server: str) -> None:
        place = urlsplit(server)
        self._host, self._port = place.hostname, place.port
        self._writers: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            inner, outer = await asyncio.open_connection(self._host, self._port)
            self._writers |= {writer, outer}
            with suppress(OSError):
                await asyncio.gather(self._copy(reader, outer), self._copy(inner, writer))
            self._writers -= {writer, outer}
            outer.transport.abort()
        writer.transport.abort()

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    def cut(self) -> None:
        """End every connection, wherever it is in a line."""
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def wire(server: str) -> AsyncIterator[Wire]:
    made = Wire(server)
    listener = await asyncio.start_server(made.pass_on, "127.0.0.1", 0)
    made.address = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        listener.close()
        made.cut()
        await asyncio.sleep(0.05)
