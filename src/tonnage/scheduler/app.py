"""HTTP routes of `tonnage scheduler`: health, readiness, metrics, explanations, and what it sees under /debug."""

import time
from collections.abc import Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, request_response

from tonnage import __version__
from tonnage.model.names import SNAPSHOT
from tonnage.model.problem import Problem
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import encode
from tonnage.observability.scrapes import MOST_SCRAPES, PACKED, PATH, scrape
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.reload.reloader import Reloader
from tonnage.scheduler.service import SchedulerService
from tonnage.scheduler.snapshot import written
from tonnage.server.access import CallerAccess
from tonnage.server.authorization import FORBIDDEN, Authorizer, authorized, refusal
from tonnage.server.callers import anybody
from tonnage.server.explaining import explain_route
from tonnage.server.explanations import ScheduledCluster
from tonnage.server.health import Health
from tonnage.server.inflight import InFlight
from tonnage.server.viewer import Viewer

_UNAVAILABLE = 503


def health_of(service: SchedulerService) -> Health:
    """The health of one scheduler."""

    def notes() -> dict[str, str]:
        return {"Lease": service.leadership.trouble} if service.leadership.trouble else {}

    return Health(service.ready, service.informer.reflectors, [service.leadership.alive], notes)


def app(
    service: SchedulerService,
    metrics: SchedulerMetrics,
    reloader: Reloader,
    health: Health,
    authorizer: Authorizer | None = None,
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """The routes of one scheduler; without an authorizer, metrics are everybody's, the rest is for loopback peers."""
    metrics.attach(service)
    scraped = anybody if authorizer is None else partial(authorized, authorizer)
    access = CallerAccess(authorizer, lambda: service.cluster)

    async def show_metrics(_: Request) -> Response:
        return scrape(metrics, service.cluster)

    return Starlette(
        routes=[
            *health.routes(),
            Route(PATH, InFlight(request_response(scraped(show_metrics)), MOST_SCRAPES), methods=["GET"]),
            *_debug_routes(service, reloader, access),
            explain_route(service.ready, partial(_scheduled, service, reloader), access.viewer_of()),
            *more,
        ],
        middleware=[PACKED],
    )


def _scheduled(service: SchedulerService, reloader: Reloader) -> ScheduledCluster:
    """The scheduler's cluster as it is now, and the configuration in force."""
    force = reloader.in_force
    return ScheduledCluster(service.cluster, force.plugins, [action.name for action in force.actions], time.time())


def _debug_routes(service: SchedulerService, reloader: Reloader, access: CallerAccess) -> list[Route]:
    """The routes under /debug; tenants see their own objects and what is wrong with them."""
    viewer_of = access.viewer_of()

    async def snapshot(request: Request) -> Response:
        viewer = await viewer_of(request)
        if isinstance(viewer, Response):
            return viewer
        if not service.ready.is_set():
            return PlainTextResponse("the informer has not synced yet", _UNAVAILABLE)
        things = await access.visible(request, viewer, service.snapshot())
        if isinstance(things, Response):
            return things
        goes_by = {"now": rfc3339(time.time()), "version": __version__}
        if viewer.sees_all:
            goes_by["config.yaml"] = reloader.in_force.text
        note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SNAPSHOT}, "data": goes_by}
        return StreamingResponse(written([note, *things]), media_type="application/json")

    async def config(request: Request) -> Response:
        viewer = await viewer_of(request)
        if isinstance(viewer, Response):
            return viewer
        # It is no object, so nobody may list it: it takes the right to get the path.
        return PlainTextResponse(reloader.in_force.text) if viewer.sees_all else refusal(FORBIDDEN, request.url.path)

    async def problems(request: Request) -> Response:
        viewer = await viewer_of(request)
        if isinstance(viewer, Response):
            return viewer
        seen = [problem for problem in service.problems.all() if _is_seen(viewer, problem)]
        return Response(encode(seen), media_type="application/json")

    return [
        # One at a time: a snapshot holds every object of the cluster.
        Route("/debug/snapshot", InFlight(request_response(snapshot), 1), methods=["GET"]),
        Route("/debug/config", config),
        Route("/debug/problems", problems),
    ]


def _is_seen(viewer: Viewer, problem: Problem) -> bool:
    """Whether a problem is one of an object that a caller may see: of pods and nodes, to all but operators."""
    kind, _, key = problem.object.partition("/")
    return viewer.sees_all or (kind == "Pod" and viewer.sees(key)) or (kind == "Node" and viewer.sees_nodes)
