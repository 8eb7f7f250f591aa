"""What the batch scheduler answers over HTTP: whether it lives, whether it is ready, its metrics, and what it sees."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tonnage.observability.metrics import PACKED, PATH
from tonnage.scheduler.debug import debug_routes
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.reload.reloader import Reloader
from tonnage.scheduler.service import SchedulerService

_UNAVAILABLE = 503


def app(service: SchedulerService, metrics: SchedulerMetrics, reloader: Reloader) -> Starlette:
    """The routes of one scheduler."""
    metrics.attach(service)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_: Request) -> Response:
        if not service.ready.is_set():
            return PlainTextResponse("the picture of the cluster is not complete yet", _UNAVAILABLE)
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
            *debug_routes(service, reloader),
        ],
        middleware=[PACKED],
    )
