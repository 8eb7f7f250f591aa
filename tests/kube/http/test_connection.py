"""A connection that has ended holds nothing."""

import asyncio
import gc
import weakref

import pytest

from tonnage.kube.http.connection import Connection


class Transport:
    """A transport that leads to its connection, as asyncio's does over TLS."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection


def test_the_transport_of_a_connection_that_has_ended_is_freed_at_once() -> None:
    async def scene() -> None:
        connection = Connection(b"", lambda _: None, lambda _: None)
        transport = Transport(connection)
        left = weakref.ref(transport)
        connection.connection_made(transport)  # type: ignore[arg-type]
        del transport
        connection.connection_lost(None)
        assert left() is None

    gc.disable()
    try:
        asyncio.run(scene())
    finally:
        gc.enable()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_connection_without_a_transport_takes_no_request(is_lost: bool) -> None:
    async def scene() -> None:
        connection = Connection(b"", lambda _: None, lambda _: None)
        if is_lost:
            connection.connection_lost(None)
        assert not connection.is_usable
        connection.abort()

    asyncio.run(scene())
