"""What the batch scheduler answers over HTTP: whether it lives, whether it is ready, its metrics, and what it sees."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tonnage.observability.metrics import PACKED, PATH
from tonnage.scheduler.debug import debug_routes
from tonnage.scheduler.metrics import Metrics
from tonnage.scheduler.reload.reloader import Reloading
from tonnage.scheduler.service import Service

_UNAVAILABLE = 503


def app(service: Service, metrics: Metrics, reloading: Reloading) -> Starlette:
    """The routes of one scheduler."""
    metrics.attach(service)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_: Request) -> Response:
        if not service.ready.is_set():
            return PlainTextResponse("the picture of the cluster is not complete yet", _UNAVAILABLE)
        trouble = dict(service.picture.trouble)
        if service.leading.trouble:
            trouble["Lease"] = service.leading.trouble
        return PlainTextResponse("ok" + "".join(f"\n{kind}: {what}" for kind, what in trouble.items()))

    async def show_metrics(_: Request) -> Response:
        return metrics.answer(service.cluster)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route(PATH, show_metrics),
            *debug_routes(service, reloading),
        ],
        middleware=[PACKED],
    )
