"""One connection that requests are sent on, one after another.

Bytes that nobody asked for, a head that does not end, and an end in the middle of an answer make it unusable. Whether
the other side has acted on a request without an answer is not known here.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from tonnage.kube.http.answer import Answer, ProtocolError

_LONGEST_HEAD = 2**18
_SUCCESS = 200
_WITHOUT_BODY = (204, 304)


class Connection(asyncio.Protocol):
    """A connection; `on_idle` is told when it can take another request, `on_closed` when it cannot any more."""

    def __init__(
        self, fingerprint: bytes, on_idle: Callable[["Connection"], None], on_closed: Callable[["Connection"], None]
    ) -> None:
        self.fingerprint = fingerprint
        """Of the certificates that the connection was made with."""
        self.used = 0
        """How many requests were sent on it."""
        self.idle_since = 0.0
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._answer: Answer | None = None
        self._head_size = 0
        self._is_paused = False
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection has ended."""
        self.heard = 0.0
        """When the last bytes came, by the event loop's clock."""

    @property
    def is_usable(self) -> bool:
        return self._answer is None and self._transport is not None and not self._transport.is_closing()

    @property
    def is_paused(self) -> bool:
        """Whether the reader of a stream has to catch up."""
        return self._is_paused

    def send(self, request: bytes) -> Answer:
        """Send a request."""
        assert self._transport is not None
        assert self._answer is None
        answer = self._answer = Answer(self._set_flow)
        self.used += 1
        self._head_size = 0
        self.heard = self._loop.time()
        self._transport.write(request)
        return answer

    def abort(self, why: str = "the connection was given up") -> None:
        """Close at once: without a TLS shutdown, which would have to be awaited."""
        if self._answer is not None:
            self._answer.fail(ProtocolError(why))
        if self._transport is not None:
            self._transport.abort()

    def _set_flow(self, reads: bool) -> None:
        if self._is_paused is reads and self._transport is not None and not self._transport.is_closing():
            self._is_paused = not reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # -- from the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are like asyncio's, and are not theirs.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.abort()
            return
        self.heard = self._loop.time()
        answer.has_begun = True
        if not answer.has_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.abort(f"the answer is not HTTP/1.1: {error}")
            return
        if not answer.has_head and self._head_size > _LONGEST_HEAD:
            self.abort("the head of the answer does not end")
        elif self._answer is None and not self._transport.is_closing():  # type: ignore[union-attr]
            self.idle_since = self.heard
            self._on_idle(self)

    def connection_lost(self, error: Exception | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            if error is None and answer.has_head and _ends_with_connection(answer):
                answer.complete()
            elif isinstance(error, OSError):
                answer.fail(error)
            else:
                part = "in the middle of its answer" if answer.has_begun else "without an answer"
                answer.fail(ProtocolError(f"the server closed the connection {part}"))
        # Through it the connection would hold itself, with a TLS buffer of 256 KiB, until garbage is looked for.
        self._transport = None
        if not self.lost.done():
            self.lost.set_result(None)
        self._on_closed(self)

    # -- from the parser

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.has_head:
            # Raised in the parser, which makes it a parser error.
            raise ProtocolError("an answer that nobody asked for")

    def on_status(self, reason: bytes) -> None:
        assert self._answer is not None
        self._answer.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._answer is not None
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._answer is not None
        status = self._parser.get_status_code()
        if status >= _SUCCESS:
            self._answer.status = status
            self._answer.headed()

    def on_body(self, part: bytes) -> None:
        assert self._answer is not None
        self._answer.add(part)

    def on_message_complete(self) -> None:
        answer = self._answer
        assert answer is not None
        if not answer.has_head:
            # Informational; the answer itself follows.
            answer.headers, answer.reason = {}, ""
            return
        self._answer = None
        self._set_flow(True)
        if not self._parser.should_keep_alive():
            self.abort()
        answer.complete()


def _ends_with_connection(answer: Answer) -> bool:
    """Whether nothing but the end of the connection ends the body."""
    return not answer.headers.keys() & {"content-length", "transfer-encoding"} and answer.status not in _WITHOUT_BODY
