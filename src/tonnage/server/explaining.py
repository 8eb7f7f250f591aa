"""The route /explain: explanations that a server works out on a copy of its cluster, in a thread beside its own work.

What explains is imported with the first question: a server that starts has better things to do.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, request_response

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS
from tonnage.cluster.holding import Holding
from tonnage.devices.base import Vendor
from tonnage.framework.failures import failure
from tonnage.framework.plugin import Plugin
from tonnage.model.excerpt import excerpt
from tonnage.model.pod import Pod
from tonnage.model.wire import encode
from tonnage.server.callers import Guard
from tonnage.server.inflight import InFlight

log = logging.getLogger(__name__)

PATH = "/explain/{kind}/{name:path}"
KINDS = ("pod", "job", "queue", "node", "gpu")
LONGEST_NAME = 600
"""A namespace and the longest name of an object."""
_BAD, _UNKNOWN, _FAILED, _UNAVAILABLE = 400, 404, 500, 503


class ClusterCopy(NamedTuple):
    """All that a copy of a cluster is made of: objects, which never change, and what decides."""

    vendors: Sequence[Vendor]
    objects: Sequence[Any]
    """All objects that decisions depend on; those that others refer to come before them."""
    plugins: Sequence[Plugin]
    actions: Sequence[str]
    is_ours: Callable[[Pod], bool]
    reserved: Mapping[str, Holding] = {}
    """The places that are reserved for pods whose objects do not say so."""

    def build(self) -> Cluster:
        """The copy."""
        cluster = Cluster(self.vendors)
        cluster.now = time.time()
        cluster.is_ours = self.is_ours
        for thing in self.objects:
            HANDLERS[type(thing)].put(cluster, thing)
        for key, holding in self.reserved.items():
            if key in cluster.waiting:
                cluster.reserve_holding(cluster.waiting[key], holding)
        return cluster


def explain_route(ready: asyncio.Event, copied: Callable[[], ClusterCopy], guard: Guard) -> Route:
    """The route; one question at a time, because each takes a copy of the cluster."""

    async def explain(request: Request) -> Response:
        kind, name = request.path_params["kind"], request.path_params["name"]
        namespace = request.query_params.get("namespace") or "default"
        if kind not in KINDS or not 0 < len(name) <= LONGEST_NAME or len(namespace) > LONGEST_NAME:
            return PlainTextResponse(f"ask for one of {', '.join(KINDS)} by name: /explain/pod/NAME", _BAD)
        if not ready.is_set():
            return PlainTextResponse("the informer has not synced yet", _UNAVAILABLE, {"Retry-After": "1"})
        copy = copied()
        # A copied plugin shares nothing with the one at work but its arguments.
        copy = copy._replace(plugins=[plugin.with_options() for plugin in copy.plugins])
        try:
            return await asyncio.to_thread(_answer, copy, kind, name, namespace)
        except Exception as error:
            log.warning("%s %s cannot be explained: %s", kind, excerpt(name), failure(error), exc_info=error)
            return PlainTextResponse(f"that cannot be explained: {failure(error)}", _FAILED)

    return Route(PATH, InFlight(request_response(guard(explain)), 1), methods=["GET"])


def _answer(copy: ClusterCopy, kind: str, name: str, namespace: str) -> Response:
    from tonnage.explain.explain import Explainer
    from tonnage.explain.names import UnknownNameError
    from tonnage.explain.record import ExplainedKind

    explainer = Explainer(copy.build(), copy.plugins, copy.actions)
    try:
        found = explainer.explain(ExplainedKind(kind), name, namespace)
    except UnknownNameError as error:
        return PlainTextResponse(str(error), _UNKNOWN)
    return Response(encode(found), media_type="application/json")
