"""The route /explain: explanations as JSON, each as far as its caller's rights reach."""

import asyncio
import logging
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tonnage.explain.record import ExplainedKind
from tonnage.model.excerpt import excerpt
from tonnage.model.wire import encode
from tonnage.server.access import ViewerOf
from tonnage.server.copies import CopyError
from tonnage.server.explanations import BusyError, ExplainQuestion, Explanations, ScheduledCluster, UnknownThing
from tonnage.server.redaction import missing_right, seen_by
from tonnage.server.viewer import Viewer

log = logging.getLogger(__name__)

PATH = "/explain/{kind}/{name:path}"
KINDS = tuple(kind.value for kind in ExplainedKind)
LONGEST_NAME = 600
"""A namespace and the longest name of an object."""
_NAMESPACED = (ExplainedKind.POD, ExplainedKind.JOB)
_BAD, _FORBIDDEN, _UNKNOWN, _BUSY, _FAILED, _UNAVAILABLE = 400, 403, 404, 429, 500, 503


def explain_route(ready: asyncio.Event, scheduled: Callable[[], ScheduledCluster], viewer_of: ViewerOf) -> Route:
    """The route of a server."""
    explanations = Explanations(scheduled)

    async def explain(request: Request) -> Response:
        viewer = await viewer_of(request)
        if isinstance(viewer, Response):
            return viewer
        kind, name = request.path_params["kind"], request.path_params["name"]
        namespace = request.query_params.get("namespace") or "default"
        if kind not in KINDS or not 0 < len(name) <= LONGEST_NAME or len(namespace) > LONGEST_NAME:
            return PlainTextResponse(f"ask for one of {', '.join(KINDS)} by name: /explain/pod/NAME", _BAD)
        if not ready.is_set():
            return PlainTextResponse("the informer has not synced yet", _UNAVAILABLE, {"Retry-After": "1"})
        try:
            return await _answer(explanations, ExplainQuestion(ExplainedKind(kind), name, namespace), viewer)
        except BusyError:
            return PlainTextResponse("other explanations are being found; try again", _BUSY, {"Retry-After": "1"})
        except CopyError as error:
            log.warning("%s %s cannot be explained: %s", kind, excerpt(name), error)
            why = str(error) if viewer.sees_all else "the server's log says why"
            return PlainTextResponse(f"that cannot be explained: {why}", _FAILED)

    return Route(PATH, explain, methods=["GET"])


async def _answer(explanations: Explanations, asked: ExplainQuestion, viewer: Viewer) -> Response:
    right = missing_right(asked.kind, viewer)
    if right:
        return PlainTextResponse(f"the API server does not let this user {right}", _FORBIDDEN)
    key = asked.name if "/" in asked.name else f"{asked.namespace}/{asked.name}"
    is_hidden = asked.kind in _NAMESPACED and not viewer.sees(key)
    found = UnknownThing("", []) if is_hidden else await explanations.ask(asked, is_tenant=not viewer.sees_all)
    if isinstance(found, UnknownThing):
        return PlainTextResponse(found.message if viewer.sees_all else _unseen(asked, found, viewer), _UNKNOWN)
    return Response(encode(seen_by(viewer, found)), media_type="application/json")


def _unseen(asked: ExplainQuestion, found: UnknownThing, viewer: Viewer) -> str:
    """That there is no such thing, or none that the caller may see, which must not be told apart."""
    near = [one for one in found.near if asked.kind not in _NAMESPACED or viewer.sees(one)]
    hint = f"; did you mean {' or '.join(excerpt(one) for one in near)}?" if near else ""
    return f"there is no {asked.kind} {excerpt(asked.name)} that this user may see{hint}"
