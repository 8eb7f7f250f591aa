"""Bodies of requests, each within a limit, and those of one reader together within another.

A reader that holds too much in all drops the largest body that is still coming, so that who sends much or slowly does
not keep out who sends little.
"""

from io import BytesIO

from starlette.requests import ClientDisconnect, Request


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

    async def read(self, request: Request) -> bytes:
        """The body, empty if the peer hangs up before its end; BodyError if it is not taken."""
        self._check(int(request.headers.get("content-length", "0")))
        body = _Body()
        self._open.add(body)
        try:
            async for part in request.stream():
                self._check(body.size + len(part))
                body.content.write(part)
                self._make_room()
                if body.is_dropped:
                    raise BodyError(503, "too much is being sent at once; try again")
        except ClientDisconnect:
            return b""
        finally:
            self._open.remove(body)
        return body.content.getvalue()

    def _check(self, size: int) -> None:
        if size > self._largest:
            raise BodyError(413, f"the request is larger than {self._largest} bytes")

    def _make_room(self) -> None:
        if self._together is not None and sum(body.size for body in self._open) > self._together:
            largest = max(self._open, key=lambda body: body.size)
            largest.content, largest.is_dropped = BytesIO(), True
