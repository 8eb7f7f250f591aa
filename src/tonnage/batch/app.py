"""What the batch scheduler answers over HTTP: whether it lives, whether it is ready, its metrics, and what it sees."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tonnage.batch.debug import debug_routes
from tonnage.batch.metrics import Metrics
from tonnage.batch.reloading import Reloading
from tonnage.batch.service import Service
from tonnage.observability.metrics import PACKED, PATH

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
