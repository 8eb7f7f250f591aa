"""HTTP routes of `tonnage scheduler`: health, readiness, metrics, and what it sees and goes by under /debug."""

import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tonnage import __version__
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import encode
from tonnage.observability.metrics import PACKED, PATH
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.reload.reloader import Reloader
from tonnage.scheduler.service import SchedulerService
from tonnage.scheduler.snapshot import written

_UNAVAILABLE = 503


def app(service: SchedulerService, metrics: SchedulerMetrics, reloader: Reloader) -> Starlette:
    """The routes of one scheduler."""
    metrics.attach(service)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_: Request) -> Response:
        if not service.ready.is_set():
            return PlainTextResponse("the informer has not synced yet", _UNAVAILABLE)
        trouble = dict(service.informer.trouble)
        if service.leadership.trouble:
            trouble["Lease"] = service.leadership.trouble
        return PlainTextResponse("ok" + "".join(f"\n{kind}: {what}" for kind, what in trouble.items()))

    async def show_metrics(_: Request) -> Response:
        return metrics.answer(service.cluster)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route(PATH, show_metrics),
            *_debug_routes(service, reloader),
        ],
        middleware=[PACKED],
    )


def _debug_routes(service: SchedulerService, reloader: Reloader) -> list[Route]:
    """The routes under /debug."""

    async def snapshot(_: Request) -> Response:
        if not service.ready.is_set():
            return PlainTextResponse("the informer has not synced yet", _UNAVAILABLE)
        goes_by = {"config.yaml": reloader.in_force.text, "now": rfc3339(time.time()), "version": __version__}
        note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tonnage-snapshot"}, "data": goes_by}
        return StreamingResponse(written([note, *service.snapshot()]), media_type="application/json")

    async def config(_: Request) -> Response:
        return PlainTextResponse(reloader.in_force.text)

    async def problems(_: Request) -> Response:
        return Response(encode(service.problems.all()), media_type="application/json")

    return [
        Route("/debug/snapshot", snapshot),
        Route("/debug/config", config),
        Route("/debug/problems", problems),
    ]
