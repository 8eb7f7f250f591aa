"""A dashboard that is served from a thread of its own, for browsers and other clients that block."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.server.listening import until_listening
from tests.waiting import PATIENCE
from tonnage.dashboard.app import Dashboard
from tonnage.dashboard.board import Board
from tonnage.lab.program import free_ports
from tonnage.server.access import ViewerOf
from tonnage.server.endpoint import Endpoint
from tonnage.server.http import serve


@contextmanager
def served(board: Board, viewer_of: ViewerOf | None = None) -> Iterator[int]:
    """The port of a board's pages while they are served."""
    (port,) = free_ports(1)
    listens, stop = threading.Event(), threading.Event()

    async def run() -> None:
        ended = asyncio.Event()
        looking = asyncio.create_task(board.run())
        serving = asyncio.create_task(serve([(Dashboard(board, viewer_of).app(), Endpoint("127.0.0.1", port))], ended))
        await until_listening(port)
        listens.set()
        while not stop.is_set() and not serving.done():
            await asyncio.sleep(0.02)
        board.stop()
        ended.set()
        await asyncio.gather(looking, serving)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert listens.wait(PATIENCE), "the dashboard does not listen"
    try:
        yield port
    finally:
        stop.set()
        thread.join(PATIENCE)
