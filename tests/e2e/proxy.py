"""A wire that can be cut or held: passes bytes between clients and the API server until it is told not to."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import urlsplit

from tests.transports import abort_all
from tests.waiting import PATIENCE


class Wire:
    """Connections that go through here."""

    def __init__(self, server: str) -> None:
        place = urlsplit(server)
        self._host, self._port = place.hostname, place.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._is_over = False
        self.address = ""
        self._flows = asyncio.Event()
        self._flows.set()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes both ways until one side ends or the wire is cut; closes both connections."""
        task, ends = asyncio.current_task(), [writer]
        assert task is not None
        self._passing.add(task)
        try:
            with suppress(OSError):
                inner, outer = await asyncio.open_connection(self._host, self._port)
                ends.append(outer)
                if not self._is_over:
                    self._writers.update(ends)
                    await self._copy_both(self._copy(reader, outer), self._copy(inner, writer, is_answer=True))
        finally:
            self._writers.difference_update(ends)
            for end in ends:
                end.transport.abort()
                with suppress(OSError):
                    await end.wait_closed()
            self._passing.discard(task)

    async def _copy_both(self, *ways: Coroutine[None, None, None]) -> None:
        copies = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool = False) -> None:
        while data := await reader.read(4096):
            if is_answer:
                await self._flows.wait()
            writer.write(data)
            await writer.drain()

    def hold(self) -> None:
        """Keep what the server says back, in its order."""
        self._flows.clear()

    def let_go(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        """End every connection, wherever it is in a line."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        """End every connection, also one that is only being made, and wait until all sockets are closed."""
        self._is_over = True
        self.cut()
        if self._passing:
            await asyncio.wait(self._passing)


@asynccontextmanager
async def wire(server: str) -> AsyncIterator[Wire]:
    made = Wire(server)
    listener = await asyncio.start_server(made.pass_on, "127.0.0.1", 0)
    made.address = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        listener.close()
        await made.close()
        await abort_all()


class HeldWire:
    """A wire with an event loop of its own, for programs outside."""

    def __init__(self, server: str) -> None:
        self.address = ""
        self._server = server
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with wire(self._server) as self._wire:
            self.address = self._wire.address
            self._ready.set()
            await self._over.wait()
            self._wire.let_go()

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self._wire.hold)

    def let_go(self) -> None:
        self._loop.call_soon_threadsafe(self._wire.let_go)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)


@contextmanager
def wire_beside(server: str) -> Iterator[HeldWire]:
    made = HeldWire(server)
    try:
        yield made
    finally:
        made.stop()
