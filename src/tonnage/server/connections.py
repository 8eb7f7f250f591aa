"""Connections of a server: how many there are, how long each may take, and how much it may send ahead.

Peers are trusted (loopback, or with a verified certificate) or strangers, and neither takes the other's places. When
all places of strangers are taken, the connection goes that has waited longest without a whole request; so silent ones
keep nobody out.
"""

import asyncio
from collections.abc import Callable

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tonnage.server.callers import CERTIFICATE, dns_names

STRANGERS, TRUSTED = 256, 8192
"""Connections at once. kube-scheduler has one for each bind that waits for its turn."""
HEAD_SECONDS, BODY_SECONDS = 10.0, 30.0
"""Time for a TLS handshake or a request's head, and for its body."""
LEAVING_SECONDS = 2.0
"""How long a server that ends answers requests that clients send on idle connections."""
STALLED_SECONDS = 15.0
"""How long a peer may leave an answer unread."""
LINGER_SECONDS = 2.0
"""How long a body is read on, and dropped, that the answer did not wait for."""
HEAD_BYTES = 64 * 2**10
PIPELINED = 8
"""Requests that a peer may send ahead of an answer."""
_CONTINUE = b"HTTP/1.1 100 "
_BAD_REQUEST, _TOO_LARGE = b"400 Bad Request", b"431 Request Header Fields Too Large"


class Seat:
    """The place of one connection."""

    def __init__(self, seats: "Seats", is_trusted: bool) -> None:
        self._seats = seats
        self.is_trusted = is_trusted
        self.leave: Callable[[], object] = lambda: None
        """Ends the connection."""

    def busy(self) -> None:
        """A whole request has come, and is answered."""
        self._seats.waiting.pop(self, None)

    def idle(self) -> None:
        """The connection waits for a request."""
        if not self.is_trusted and self in self._seats.taken:
            self._seats.waiting[self] = None

    def trust(self) -> bool:
        """Count the connection among the trusted; False if there is no place."""
        if self.is_trusted:
            return True
        if self._seats.trusted >= TRUSTED:
            return False
        self.free()
        self.is_trusted = True
        self._seats.take(self)
        return True

    def free(self) -> None:
        """The connection has ended."""
        if self in self._seats.taken:
            self._seats.taken.remove(self)
            self._seats.waiting.pop(self, None)
            self._seats.trusted -= self.is_trusted


class Seats:
    """The places of one server's connections."""

    def __init__(self) -> None:
        self.taken: set[Seat] = set()
        self.trusted = 0
        self.waiting: dict[Seat, None] = {}
        """Strangers without a whole request, the longest waiting first."""

    @property
    def strangers(self) -> int:
        return len(self.taken) - self.trusted

    def admit(self, is_trusted: bool) -> Seat | None:
        """A place for a new connection; None if there is none."""
        if is_trusted:
            if self.trusted >= TRUSTED:
                return None
        elif self.strangers >= STRANGERS:
            if not self.waiting:
                return None
            longest = next(iter(self.waiting))
            longest.free()
            longest.leave()
        made = Seat(self, is_trusted)
        self.take(made)
        return made

    def take(self, seat: Seat) -> None:
        self.taken.add(seat)
        self.trusted += seat.is_trusted
        seat.idle()


class _HeadTooLargeError(Exception):
    """A request's head is longer than `HEAD_BYTES`."""


class _JoinedTransport:
    """A transport for one response, whose head leaves together with the first part of its body.

    uvicorn writes them apart, which costs a system call more here and wakes the peer twice.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if self._head is not None:
            data, self._head = self._head + data, b""
        elif not data.startswith(_CONTINUE):
            self._head = data
            return
        self._transport.write(data)

    def close(self) -> None:
        if self._head:
            self._transport.write(self._head)
        self._transport.close()


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP with limits on the head of a request and on the time that each part of it takes."""

    def __init__(self, config: Config, server_state: ServerState, loop: asyncio.AbstractEventLoop, seat: Seat) -> None:
        super().__init__(config, server_state, {}, loop)
        self._seat = seat
        self._names: tuple[str, ...] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_reading = False
        """Whether bytes are being read; the deadline of what they leave unfinished is set once they are."""
        self._allowed: float | None = None
        """Seconds for what they leave unfinished; None if that is nothing."""
        self._is_renewed = False
        """Whether these bytes have begun or ended something, so that an earlier deadline is over."""
        self._stalled: asyncio.TimerHandle | None = None
        self._unread = 0
        """Bytes that have brought neither a head nor a part of a body to an end."""
        self._head = 0
        self._is_whole = True
        """Whether the last request that began has come whole."""
        self._fault = _BAD_REQUEST
        self._is_leaving = False

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._seat.leave = transport.abort
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self._names = dns_names(certificate)
            if not self._seat.trust():
                transport.abort()
                return
        self._allow(HEAD_SECONDS)

    def shutdown(self) -> None:
        """Leave so that no request is lost on its way: over TLS clients are elsewhere, and may just be sending one.

        What comes in the next seconds is answered, with the word that the connection ends; then it is closed.
        """
        is_idle = self.cycle is None or self.cycle.response_complete
        if self.scheme == "https" and not self._is_leaving:
            self._is_leaving = True
            if is_idle:
                self.loop.call_later(LEAVING_SECONDS, super().shutdown)
                return
            self._say_that_it_ends()
        super().shutdown()

    def _say_that_it_ends(self) -> None:
        self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def connection_lost(self, exc: Exception | None) -> None:
        self._seat.free()
        self._stop_deadline()
        self.resume_writing()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _allow(self, seconds: float | None) -> None:
        """Give what comes next that long; None if nothing has to come."""
        if self._is_reading:
            self._allowed = seconds
            self._is_renewed = True
            return
        self._stop_deadline()
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- a request

    def data_received(self, data: bytes) -> None:
        # A request that comes whole, as most do, needs no timer at all.
        self._is_reading, self._is_renewed = True, False
        if self._deadline is None:
            self._allow(HEAD_SECONDS)
        self._unread += len(data)
        # What came to an end within these bytes sets the count back, so it may be short by one read.
        super().data_received(data)
        self._is_reading = False
        if self._is_renewed:
            self._allow(self._allowed)
        if self._unread > HEAD_BYTES and not self.transport.is_closing():
            self._fault = _TOO_LARGE
            self.send_400_response(_advice(self._fault))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self._is_whole = False
        self._allow(HEAD_SECONDS)
        if self._names is not None:
            self.scope["extensions"] = {CERTIFICATE: {"names": self._names}}

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            raise httptools.HttpParserError("too many requests at once")
        self._unread = 0
        self._allow(BODY_SECONDS)
        super().on_headers_complete()
        if self._is_leaving:
            self._say_that_it_ends()
        if self.scope["method"] != "HEAD":
            self.cycle.transport = _JoinedTransport(self.transport)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        self._is_whole = True
        self._allow(None)
        super().on_message_complete()
        if self.cycle.response_complete:
            self._await_request()
        else:
            self._seat.busy()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_whole:
            self._allow(LINGER_SECONDS)
        elif not self.pipeline:
            self._seat.idle()

    def _await_request(self) -> None:
        """Keep a connection for the next request whose last was answered before it had come whole."""
        self._seat.idle()
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _count(self, size: int) -> None:
        """Count a part of a head, or of what may follow a body in chunks."""
        self._head += size
        if self._head > HEAD_BYTES:
            self._fault = _TOO_LARGE
            raise _HeadTooLargeError

    def send_400_response(self, msg: str) -> None:
        """Answer that a request cannot be read, and end the connection."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            words = _advice(self._fault).encode()
            head = b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close"
            self.transport.write(head % (self._fault, len(words)) + b"\r\n\r\n" + words)
        self.transport.close()


def _advice(fault: bytes) -> str:
    if fault is _TOO_LARGE:
        return f"the head of the request is larger than {HEAD_BYTES} bytes"
    return "the request is not HTTP as this server reads it"
