"""What the batch scheduler answers over HTTP: whether it lives, whether it is ready, its metrics, and what it sees."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tonnage.batch.debug import debug_routes
from tonnage.batch.metrics import CONTENT_TYPE, Metrics
from tonnage.batch.reloading import Reloading
from tonnage.batch.service import Service

_UNAVAILABLE = 503


def app(service: Service, metrics: Metrics, reloading: Reloading) -> Starlette:
    """The routes of one scheduler."""
    cluster = service.cluster
    metrics.show(
        {
            "tonnage_nodes": ("Nodes in the picture of the cluster.", lambda: len(cluster.nodes)),
            "tonnage_pods_waiting": ("Pods of this scheduler that wait.", lambda: len(cluster.waiting)),
            "tonnage_pods_passed_over": (
                "Waiting pods that are not looked at until something changes.",
                lambda: len(service.backlog),
            ),
            "tonnage_pods_reserved": ("Pods whose place is reserved.", lambda: len(cluster.reserved)),
            "tonnage_pods_bound": ("Pods with a node.", lambda: len(cluster.running)),
            "tonnage_binds_in_flight": ("Binds that have not come to their end.", lambda: len(service.binds)),
            "tonnage_conditions_queued": ("Conditions to be written.", lambda: service.conditions.queued),
            "tonnage_leading": ("1 while this replica leads.", lambda: service.leading.leads),
            "tonnage_picture_synced": ("1 once everything was listed.", lambda: service.picture.synced.is_set()),
        }
    )

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
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", show_metrics),
            *debug_routes(service, reloading),
        ],
    )
