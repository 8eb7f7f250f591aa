"""The pool of connections to one server.

A request takes the connection that became idle last. If none is idle, it waits for the first that is ready, an old one
or one of the few that are being made: a TLS handshake costs both sides as much as many requests.

A connection keeps the certificates that it was made with. When others are to be trusted, new connections are made, and
the old ones are closed once the requests on them have ended.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tonnage.kube.http.answer import Answer, ProtocolError
from tonnage.kube.http.connection import Connection
from tonnage.kube.http.dialer import Dialer

MOST_CONNECTIONS = 100
"""Connections for requests; those of streams come on top."""
_DIALS_AT_ONCE = 4
_IDLE_SECONDS = 15.0
"""How long a connection is kept that nobody uses."""
_LAST_REQUEST = 90.0
"""Seconds until old connections are closed; requests time out before that, and watches begin again."""


class ConnectionPool:
    """The open connections to one server; must be closed."""

    def __init__(self, dialer: Dialer, most: int = MOST_CONNECTIONS) -> None:
        self._dialer = dialer
        self._most = most
        self._tls: ssl.SSLContext | None = None
        self._fingerprint: bytes | None = None
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []
        """In the order in which they became idle."""
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._dials: set[asyncio.Task[None]] = set()
        self._streams = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """Whether no connection is open or wanted."""
        return not (self._open or self._dials or self._waiting)

    def trust(self, tls: ssl.SSLContext | None, fingerprint: bytes) -> None:
        """Make connections with this context, whose certificates have that fingerprint."""
        if fingerprint == self._fingerprint:
            return
        self._tls, self._fingerprint = tls, fingerprint
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()
        if self._open:
            self._set_timer("retire", _LAST_REQUEST)

    async def fetch(self, request: bytes, is_repeatable: bool, most: int) -> tuple[Answer, bytes]:
        """Send a request; the answer and its whole body, of at most so many bytes.

        OSError if there is none. A connection that was idle may be closed by the server while a request is on its way;
        only what may be done twice is then sent again, on another.
        """
        while True:
            connection = await self._acquire()
            is_first = not connection.used
            answer = connection.send(request)
            try:
                return answer, await answer.body(most)
            except BaseException as error:
                connection.abort()
                if not _is_stale(error, answer, is_first) or not is_repeatable:
                    raise

    @asynccontextmanager
    async def stream(self, request: bytes, silence: float) -> AsyncIterator[Answer]:
        """Send a request that may be done twice; its answer once there is a head.

        OSError, also from the answer's chunks, if nothing comes for that many seconds.
        """
        connection, answer = await self._begin_stream(request, silence)
        self._streams += 1
        watchdog = _Watchdog(connection, answer, silence)
        try:
            yield answer
        finally:
            watchdog.stop()
            self._streams -= 1
            if not answer.is_complete:
                connection.abort()

    async def _begin_stream(self, request: bytes, silence: float) -> tuple[Connection, Answer]:
        async with asyncio.timeout(silence):
            while True:
                connection = await self._acquire()
                is_first = not connection.used
                answer = connection.send(request)
                try:
                    await answer.head()
                    return connection, answer
                except BaseException as error:
                    connection.abort()
                    if not _is_stale(error, answer, is_first):
                        raise

    async def close(self) -> None:
        """Close all connections at once."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        for dial in self._dials:
            dial.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        for waiter in self._waiting:
            waiter.cancel()
        lost = [connection.lost for connection in self._open]
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*lost)

    # -- connections

    async def _acquire(self) -> Connection:
        """A connection that nobody uses."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        while True:
            waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            self._dial_more()
            try:
                connection = await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                    self._ready(waiter.result())
                waiter.cancel()
                raise
            if connection.is_usable:
                return connection
            if not connection.used:
                raise ProtocolError("the server closed the connection at once")

    def _ready(self, connection: Connection) -> None:
        """A connection can take a request."""
        if self._is_closed or connection.fingerprint != self._fingerprint:
            connection.abort()
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle.append(connection)
        self._set_timer("expire", _IDLE_SECONDS)

    def _closed(self, connection: Connection) -> None:
        """A connection has ended."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._dial_more()

    def _dial_more(self) -> None:
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        wanted = min(len(self._waiting), _DIALS_AT_ONCE)
        while (
            len(self._dials) < wanted
            and len(self._open) - self._streams + len(self._dials) < self._most
            and not self._is_closed
        ):
            dial = asyncio.get_running_loop().create_task(self._dial())
            self._dials.add(dial)
            dial.add_done_callback(self._dialled)

    async def _dial(self) -> None:
        assert self._fingerprint is not None, "trust() comes first"
        connection = Connection(self._fingerprint, self._ready, self._closed)
        failure: Exception = ProtocolError("the server closed the connection at once")
        try:
            await self._dialer.dial(connection, self._tls)
        except Exception as error:
            failure = error
        if connection.is_usable:
            self._open.add(connection)
            self._ready(connection)
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(failure)
                return

    def _dialled(self, dial: asyncio.Task[None]) -> None:
        self._dials.discard(dial)
        self._dial_more()

    # -- timers

    def _set_timer(self, name: str, seconds: float) -> None:
        """Expire idle connections or retire old ones after some time; a timer that is set stays."""
        if name not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(seconds, self._on_timer, name)

    def _on_timer(self, name: str) -> None:
        del self._timers[name]
        if name == "expire":
            self._expire()
            return
        for connection in [one for one in self._open if one.fingerprint != self._fingerprint]:
            connection.abort("the connection's certificates are replaced")

    def _expire(self) -> None:
        """Close connections that were idle for long."""
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        for connection in [one for one in self._idle if one.idle_since <= oldest]:
            self._idle.remove(connection)
            connection.abort()
        if self._idle:
            self._set_timer("expire", max(self._idle[0].idle_since - oldest, 0.1))


class _Watchdog:
    """Ends an answer whose connection is silent for too long, although it is read."""

    def __init__(self, connection: Connection, answer: Answer, silence: float) -> None:
        self._connection = connection
        self._answer = answer
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(silence, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        due = now + self._silence if self._connection.is_paused else self._connection.heard + self._silence
        if due > now:
            self._timer = self._loop.call_at(due, self._look)
            return
        self._answer.fail(TimeoutError(f"nothing came for {self._silence:g} s"))
        self._connection.abort()

    def stop(self) -> None:
        self._timer.cancel()


def _is_stale(error: BaseException, answer: Answer, is_first: bool) -> bool:
    """Whether the server has closed a connection that was idle, before a request on it arrived."""
    return isinstance(error, ConnectionError) and not is_first and not answer.has_begun
