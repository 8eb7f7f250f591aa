"""Access to the dashboard of a server: as to /debug, and for tenants what the API server lets them list."""

import asyncio
from collections.abc import Callable, Collection

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tonnage.dashboard.app import ViewerOf
from tonnage.dashboard.security import LOOPBACK_NAMES, host_of
from tonnage.dashboard.viewer import EVERYTHING, Viewer
from tonnage.server.authorization import ALLOWED, FORBIDDEN, Authorizer, refusal
from tonnage.server.callers import from_loopback

PATH = "/dashboard"
MOST_NAMESPACES = 200
"""Namespaces that are asked about for one caller."""
_AT_ONCE = 8
_LOOPBACK_ONLY = (
    "only loopback peers may look at this; use kubectl port-forward, or start with --authorize-metrics and show a "
    "bearer token"
)
_OTHER_NAME = (
    f"loopback peers are answered under {', '.join(sorted(LOOPBACK_NAMES))} only: a page of somebody else's whose name "
    "points here must not read this one through a browser"
)
_NOTHING = (
    f"the API server lets this user neither get {PATH} nor list pods in any namespace that has some; allow the one in "
    "a ClusterRole, under nonResourceURLs, or the other in a Role"
)


def viewer_of_server(authorizer: Authorizer | None, namespaces: Callable[[], Collection[str]]) -> ViewerOf:
    """The rights of callers: all for loopback peers and whoever may get the path, else whatever they may list.

    Who may get the path is asked about as a whole. Everybody else is asked about nodes, about pods everywhere, and
    then about the pods of each namespace that has any.
    """

    async def viewer_of(request: Request) -> Viewer | Response:
        if from_loopback(request.scope):
            is_own = host_of(request.scope) in LOOPBACK_NAMES
            return EVERYTHING if is_own else PlainTextResponse(_OTHER_NAME, 421)
        if authorizer is None:
            return PlainTextResponse(_LOOPBACK_ONLY, 403)
        authorization = request.headers.get("Authorization", "")
        status = await authorizer.status(authorization, PATH)
        if status == ALLOWED:
            return EVERYTHING
        if status != FORBIDDEN:
            return refusal(status, PATH)
        return await _tenant(authorizer, authorization, namespaces())

    return viewer_of


async def _tenant(authorizer: Authorizer, authorization: str, namespaces: Collection[str]) -> Viewer | Response:
    nodes = await authorizer.list_status(authorization, "nodes") == ALLOWED
    if await authorizer.list_status(authorization, "pods") == ALLOWED:
        return Viewer(None, nodes)
    asking = asyncio.Semaphore(_AT_ONCE)

    async def may(namespace: str) -> bool:
        async with asking:
            return await authorizer.list_status(authorization, "pods", namespace) == ALLOWED

    wanted = sorted(namespaces)[:MOST_NAMESPACES]
    allowed = await asyncio.gather(*(may(namespace) for namespace in wanted))
    own = frozenset(namespace for namespace, is_own in zip(wanted, allowed, strict=True) if is_own)
    return Viewer(own, nodes) if own else PlainTextResponse(_NOTHING, 403)
