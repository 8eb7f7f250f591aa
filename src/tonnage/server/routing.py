"""Routes by their exact paths: one lookup, where a router of patterns tries one route after another."""

from collections.abc import Sequence

from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send


class ExactRoutes:
    """An application of routes without parameters."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope["path"])
        if route is None:
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
        else:
            await route.handle(scope, receive, send)
