"""The answer to a scrape over HTTP. Apart from the metrics themselves, which count before anything is served."""

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response, StreamingResponse

from tonnage.cluster.cluster import Cluster
from tonnage.observability.metrics import ServerMetrics

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PACKED = Middleware(GZipMiddleware, compresslevel=1)
"""Level 1 is fast, and the text shrinks to a twentieth at any level."""
MOST_SCRAPES = 16
"""Scrapes that are answered at once."""


def scrape(metrics: ServerMetrics, cluster: Cluster, legacy: bool = False) -> Response:
    """The answer to a scrape, with HAMi's old names too if `legacy` is set."""
    return StreamingResponse(metrics.exposition(cluster, legacy), media_type=CONTENT_TYPE)
