"""Requests in flight: how many of one path are answered at a time; beyond that, 429 with Retry-After."""

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class InFlight:
    """An endpoint that answers so many requests at once, each until its answer is sent."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._count >= self._most:
            words = f"{self._most} such requests are being answered already; try again"
            await PlainTextResponse(words, 429, {"Retry-After": "1"})(scope, receive, send)
            return
        self._count += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._count -= 1
