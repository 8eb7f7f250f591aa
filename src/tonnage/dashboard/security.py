"""Security of pages: headers that let a browser do nothing but show them, and the hosts they answer under."""

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tonnage.server.callers import host_of

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class SafePages:
    """An application that answers reading requests only, with headers that keep pages from harm.

    With hosts given, requests under another name are refused: a page of somebody else whose name was made to point
    here must not read this one through the user's browser.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        answer: ASGIApp = self._app if refused is None else refused

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await answer(scope, receive, guarded)

    def _refused(self, scope: Scope) -> PlainTextResponse | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("these pages can only be read", 405, {"Allow": "GET, HEAD"})
        if self._hosts and host_of(scope) not in self._hosts:
            words = f"these pages answer under {', '.join(sorted(self._hosts))} only"
            return PlainTextResponse(words, 421)
        return None
