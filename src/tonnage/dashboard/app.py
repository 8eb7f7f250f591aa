"""The application of the dashboard: its pages, its style sheet and script, and the stream of what changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from tonnage.dashboard.board import Board
from tonnage.dashboard.liveview import LiveView, LiveViews, Update
from tonnage.dashboard.security import SafePages
from tonnage.dashboard.templating import rendered, script, style_sheet
from tonnage.dashboard.views.cluster import CardsView
from tonnage.dashboard.views.decisions import DecisionsView
from tonnage.dashboard.views.details import CardPage, DecisionPage, NodePage, PodPage, QueuePage
from tonnage.dashboard.views.explanation import ExplanationPage
from tonnage.dashboard.views.queues import QueuesView
from tonnage.dashboard.views.trends import TrendsView
from tonnage.dashboard.views.view import Asked, UnknownThingError, View
from tonnage.dashboard.views.waitingpods import WaitingView
from tonnage.dashboard.views.whatif import WhatIfView
from tonnage.server.access import ViewerOf
from tonnage.server.viewer import EVERYTHING, Viewer

MOST_STREAMS = 64
"""Pages that are told of changes at once; others are asked to reload by themselves."""
REVIEW_SECONDS = 30.0
"""How often the rights of a page that is open are asked about again."""
LONGEST_PARAMETER = 300
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
NAVIGATION = ("cluster", "waiting", "queues", "decisions", "trends", "what-if")
_PATHS = {
    "/": "cluster",
    "/waiting": "waiting",
    "/queues": "queues",
    "/decisions": "decisions",
    "/trends": "trends",
    "/what-if": "what-if",
    "/nodes/{name}": "node",
    "/gpus/{name:path}": "card",
    "/pods/{name:path}": "pod",
    "/queues/{name}": "queue",
    "/decisions/{name}": "decision",
    "/explain/pods/{name:path}": "explanation",
}


def always(viewer: Viewer) -> ViewerOf:
    """The same rights for every caller."""

    async def viewer_of(_: Request) -> Viewer | Response:
        return viewer

    return viewer_of


class Dashboard:
    """The pages about one board."""

    def __init__(self, board: Board, viewer_of: ViewerOf | None = None) -> None:
        self._board = board
        self._viewer_of = viewer_of or always(EVERYTHING)
        kinds: tuple[View, ...] = (
            CardsView(), WaitingView(), QueuesView(), DecisionsView(), TrendsView(), WhatIfView(),
            NodePage(), CardPage(), PodPage(), QueuePage(), DecisionPage(), ExplanationPage(),
        )  # fmt: skip
        self._views = {view.name: view for view in kinds}
        self._live = LiveViews()

    def app(self, hosts: Collection[str] = ()) -> ASGIApp:
        """The routes; with hosts given, only requests under these names are answered."""
        pages = [Route(path, self._page(self._views[name]), methods=["GET"]) for path, name in _PATHS.items()]
        made = Starlette(
            routes=[
                *pages,
                Route("/stream", self._stream, methods=["GET"]),
                Route("/static/dashboard.css", _static(style_sheet, "text/css"), methods=["GET"]),
                Route("/static/dashboard.js", _static(script, "text/javascript"), methods=["GET"]),
                Route("/{rest:path}", self._nothing, methods=["GET"]),
            ],
            middleware=[Middleware(GZipMiddleware, minimum_size=500, compresslevel=4)],
        )
        return SafePages(made, hosts)

    def _page(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def page(request: Request) -> Response:
            viewer = await self._viewer_of(request)
            if isinstance(viewer, Response):
                return viewer
            self._board.freshen()
            base = request.scope.get("root_path", "").rstrip("/")
            params = _parameters(view, request.query_params) | {
                name: str(value) for name, value in request.path_params.items()
            }
            asked = Asked(self._board, viewer, base, params)
            right = view.missing_right(viewer)
            if right:
                return self._error(asked, 403, "This is not shown to you", f"It takes the right to {right}.", [])
            try:
                await view.prepare(asked)
                live = self._live_view(view, asked)
            except UnknownThingError as error:
                words = "It may have ended, or the name is another one."
                return self._error(asked, 404, f"There is no {error.kind} {error.name}", words, error.near, error.kind)
            stream = urlencode({"view": view.name, "stamp": live.stamp, "epoch": self._board.epoch, **params})
            html = rendered(
                "page.html",
                view=view,
                heading=view.heading(asked),
                template=f"{view.name}.page.html",
                parts=live.parts,
                asked=asked,
                stream=f"{base}/stream?{stream}",
                **self._frame(asked),
                **view.around(asked),
            )
            return HTMLResponse(html)

        return page

    def _live_view(self, view: View, asked: Asked) -> LiveView:
        key = view.name, asked.base, asked.viewer, tuple(sorted(asked.params.items()))
        return self._live.get(key, self._board.version, lambda: view.parts(asked))

    def _frame(self, asked: Asked) -> dict[str, Any]:
        source = self._board.source
        return {
            "base": asked.base,
            "navigation": [(name, self._views[name].title) for name in NAVIGATION],
            "source": source,
            "board": self._board,
            "viewer": asked.viewer,
            "now": source.now(),
            "totals": self._board.current.totals,
        }

    def _error(self, asked: Asked, status: int, title: str, words: str, near: list[str], kind: str = "") -> Response:
        html = rendered(
            "page.html", view=None, heading=title, template="error.page.html", parts={}, asked=asked, stream="",
            words=words, near=near, kind=kind, **self._frame(asked),
        )  # fmt: skip
        return HTMLResponse(html, status)

    async def _nothing(self, request: Request) -> Response:
        viewer = await self._viewer_of(request)
        if isinstance(viewer, Response):
            return viewer
        base = request.scope.get("root_path", "").rstrip("/")
        asked = Asked(self._board, viewer, base, {})
        return self._error(asked, 404, "There is no such page", "The menu above lists all that there are.", [])

    async def _stream(self, request: Request) -> Response:
        viewer = await self._viewer_of(request)
        if isinstance(viewer, Response):
            return viewer
        view = self._views.get(request.query_params.get("view", ""))
        stamp = request.query_params.get("stamp", "")
        if view is None or not stamp.isdecimal() or len(stamp) > 15:
            return PlainTextResponse("a stream needs a view and a stamp", 400)
        if self._board.pages >= MOST_STREAMS:
            return PlainTextResponse(f"{MOST_STREAMS} pages are followed already", 503, {"Retry-After": "10"})
        right = view.missing_right(viewer)
        if right:
            return PlainTextResponse(f"it takes the right to {right}", 403)
        base = request.scope.get("root_path", "").rstrip("/")
        names = (*view.parameters, "name")
        params = {key: text for key, text in _limited(request.query_params).items() if key in names}
        asked = Asked(self._board, viewer, base, params)
        is_known = request.query_params.get("epoch") == self._board.epoch
        events = self._events(view, asked, int(stamp) if is_known else None, request)
        return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _events(self, view: View, asked: Asked, stamp: int | None, request: Request) -> AsyncIterator[bytes]:
        """What changes, look by look, as long as the caller's rights stay what they were."""
        board, source = self._board, self._board.source
        if stamp is None:
            # Another process made the page: what it shows cannot be compared.
            yield b"event: reload\ndata: {}\n\n"
            return
        reviewed = time.monotonic()
        with board.open_page():
            while True:
                if time.monotonic() > reviewed + REVIEW_SECONDS:
                    reviewed = time.monotonic()
                    if await self._viewer_of(request) != asked.viewer:
                        yield b"event: reload\ndata: {}\n\n"
                        return
                try:
                    live = self._live_view(view, asked)
                    changed, gone = live.since(stamp)
                except UnknownThingError:
                    yield b"event: gone\ndata: {}\n\n"
                    return
                stamp = live.stamp
                waiting = board.current.totals.waiting if asked.viewer.sees_all else None
                update = Update(stamp, changed, gone, source.now(), source.seen, source.trouble, waiting)
                yield b"data: " + msgspec.json.encode(update) + b"\n\n"
                if not await board.changed():
                    return
                await asyncio.sleep(0)


def _static(content: Callable[[], str], kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(content(), media_type=kind, headers=_FOREVER)

    return answer


def _limited(given: Mapping[str, str]) -> dict[str, str]:
    return {key: text[:LONGEST_PARAMETER] for key, text in given.items()}


def _parameters(view: View, given: Mapping[str, str]) -> dict[str, str]:
    """The parameters that a view knows, cut to a bearable length."""
    return {key: text for key, text in _limited(given).items() if key in view.parameters}
