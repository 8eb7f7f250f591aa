"""The answer to one request while it arrives: its head, then its body as a whole or in chunks.

Whoever waits is woken once, for what it waits for. A connection is not read on while more of a stream is buffered than
its reader has taken.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

MOST_BUFFERED = 2**21
"""Bytes of a stream that are read ahead; an event of a watch may be long."""
_HEAD, _CHUNK, _END = range(3)


class ProtocolError(ConnectionError):
    """The other side ended early or does not speak HTTP/1.1."""


class BodyTooLargeError(Exception):
    """The body is larger than its reader takes."""


class Answer:
    """An answer; its connection fills it in."""

    __slots__ = (
        "_buffered",
        "_failure",
        "_flow",
        "_most",
        "_parts",
        "_waiter",
        "_waits_for",
        "has_begun",
        "has_head",
        "headers",
        "is_complete",
        "reason",
        "status",
    )

    def __init__(self, flow: Callable[[bool], None]) -> None:
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        """By names in lower case."""
        self.has_begun = self.has_head = self.is_complete = False
        self._flow = flow
        """Lets the connection be read, or not."""
        self._parts: list[bytes] = []
        self._buffered = 0
        self._most: int | None = None
        """The size that the whole body may have; None while it is read in chunks."""
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits_for = _HEAD

    # -- for the reader

    async def head(self) -> None:
        """Wait for the status and the headers; OSError if they do not come."""
        if not self.has_head:
            await self._wait(_HEAD)
        if not self.has_head:
            raise self._broken()

    async def body(self, most: int) -> bytes:
        """The whole body; BodyTooLargeError if it has more than so many bytes, OSError if its end is missing."""
        self._most = most
        self._check_size()
        self._flow(True)
        if not self.is_complete:
            await self._wait(_END)
        if not self.is_complete:
            raise self._broken()
        return self._take()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in chunks as they arrive; OSError if its end is missing."""
        while True:
            if self._parts:
                yield self._take()
                if not self.is_complete:
                    self._flow(True)
            elif self.is_complete:
                return
            elif self._failure is not None:
                raise self._broken()
            else:
                await self._wait(_CHUNK)

    def _take(self) -> bytes:
        parts, self._parts, self._buffered = self._parts, [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _wait(self, what: int) -> None:
        if self._failure is not None:
            return
        self._waits_for = what
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _broken(self) -> Exception:
        assert self._failure is not None
        return self._failure

    # -- for the connection

    def headed(self) -> None:
        self.has_head = True
        self._wake(_HEAD)

    def add(self, part: bytes) -> None:
        if self._failure is not None:
            return
        self._parts.append(part)
        self._buffered += len(part)
        if self._most is not None:
            self._check_size()
        else:
            if self._buffered > MOST_BUFFERED:
                self._flow(False)
            self._wake(_CHUNK)

    def complete(self) -> None:
        if self._failure is None:
            self.is_complete = True
            self._wake(_END)

    def fail(self, failure: Exception) -> None:
        """What has not arrived by now does not come."""
        if not self.is_complete and self._failure is None:
            self._failure = failure
            self._wake(_END)

    def _check_size(self) -> None:
        if self._most is not None and self._buffered > self._most:
            self._parts = []
            self.fail(BodyTooLargeError(f"larger than {self._most} bytes"))

    def _wake(self, what: int) -> None:
        if self._waiter is not None and what >= self._waits_for and not self._waiter.done():
            self._waiter.set_result(None)
