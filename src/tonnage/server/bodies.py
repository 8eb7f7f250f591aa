"""Bodies of requests, each within a limit, and those of one reader together within another.

A reader that holds too much in all drops the largest body that is still coming, so that who sends much or slowly does
not keep out who sends little.
"""

from io import BytesIO

from starlette.types import Message, Receive, Scope

_HUNG_UP = "http.disconnect"


class BodyError(Exception):
    """A body that is not taken, with the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Body:
    def __init__(self) -> None:
        self.content = BytesIO()
        self.is_dropped = False

    @property
    def size(self) -> int:
        return self.content.tell()


class BodyReader:
    """Reads bodies of at most so many bytes each, and so many in all at any time."""

    def __init__(self, largest: int, together: int | None = None) -> None:
        self._largest = largest
        self._together = together
        self._open: set[_Body] = set()

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """The body, empty if the peer hangs up before its end; BodyError if it is not taken."""
        self._check(_announced(scope))
        message = await receive()
        if message.get("more_body"):
            return await self._read_on(message, receive)
        # Most come whole, and need no room while they come.
        whole: bytes = message.get("body", b"")
        self._check(len(whole))
        return whole

    async def _read_on(self, message: Message, receive: Receive) -> bytes:
        """The body that begins with a message."""
        body = _Body()
        self._open.add(body)
        try:
            while message["type"] != _HUNG_UP:
                part = message.get("body", b"")
                self._check(body.size + len(part))
                body.content.write(part)
                self._make_room()
                if body.is_dropped:
                    raise BodyError(503, "too much is being sent at once; try again")
                if not message.get("more_body"):
                    return body.content.getvalue()
                message = await receive()
        finally:
            self._open.remove(body)
        return b""

    def _check(self, size: int) -> None:
        if size > self._largest:
            raise BodyError(413, f"the request is larger than {self._largest} bytes")

    def _make_room(self) -> None:
        if self._together is not None and sum(body.size for body in self._open) > self._together:
            largest = max(self._open, key=lambda body: body.size)
            largest.content, largest.is_dropped = BytesIO(), True


def _announced(scope: Scope) -> int:
    """The length that a request's head gives for its body; 0 if it gives none."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
