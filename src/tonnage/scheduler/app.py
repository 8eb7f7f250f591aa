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
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import encode
from tonnage.observability.scrapes import MOST_SCRAPES, PACKED, PATH, scrape
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.reload.reloader import Reloader
from tonnage.scheduler.service import SchedulerService
from tonnage.scheduler.snapshot import written
from tonnage.server.authorization import Authorizer, authorized
from tonnage.server.callers import Guard, anybody, loopback_only
from tonnage.server.explaining import ClusterCopy, explain_route
from tonnage.server.health import Health
from tonnage.server.inflight import InFlight

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
    scraped, debugged = (anybody, loopback_only) if authorizer is None else (partial(authorized, authorizer),) * 2

    async def show_metrics(_: Request) -> Response:
        return scrape(metrics, service.cluster)

    return Starlette(
        routes=[
            *health.routes(),
            Route(PATH, InFlight(request_response(scraped(show_metrics)), MOST_SCRAPES), methods=["GET"]),
            *_debug_routes(service, reloader, debugged),
            explain_route(service.ready, partial(_copied, service, reloader), debugged),
            *more,
        ],
        middleware=[PACKED],
    )


def _copied(service: SchedulerService, reloader: Reloader) -> ClusterCopy:
    """The scheduler's cluster as it is now, and the configuration in force."""
    cluster, force = service.cluster, reloader.in_force
    actions = [action.name for action in force.actions]
    return ClusterCopy(cluster.vendors, service.snapshot(), force.plugins, actions, cluster.is_ours)


def _debug_routes(service: SchedulerService, reloader: Reloader, guard: Guard) -> list[Route]:
    """The routes under /debug."""

    async def snapshot(_: Request) -> Response:
        if not service.ready.is_set():
            return PlainTextResponse("the informer has not synced yet", _UNAVAILABLE)
        goes_by = {"config.yaml": reloader.in_force.text, "now": rfc3339(time.time()), "version": __version__}
        note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SNAPSHOT}, "data": goes_by}
        return StreamingResponse(written([note, *service.snapshot()]), media_type="application/json")

    async def config(_: Request) -> Response:
        return PlainTextResponse(reloader.in_force.text)

    async def problems(_: Request) -> Response:
        return Response(encode(service.problems.all()), media_type="application/json")

    return [
        # One at a time: a snapshot holds every object of the cluster.
        Route("/debug/snapshot", InFlight(request_response(guard(snapshot)), 1), methods=["GET"]),
        Route("/debug/config", guard(config)),
        Route("/debug/problems", guard(problems)),
    ]
