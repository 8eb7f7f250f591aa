"""HTTP routes of `tonnage extender`: the requests of kube-scheduler and of the API server's webhook.

A request that cannot be read is answered with a sentence in `Error`, as kube-scheduler expects; it shows in the pod's
Events.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from tonnage.binder.binding import BindError, BindUnknownError
from tonnage.extender.binding import Binder
from tonnage.extender.forwarding import PEER_NAME
from tonnage.extender.preemption import PreemptArgs, PreemptResult, preempt
from tonnage.extender.protocol import BindArgs, BindResult, FilterArgs, FilterResult, HostPriority
from tonnage.extender.recorder import ExtenderRecorder
from tonnage.extender.replicas import Replicas
from tonnage.extender.reservations import Filtered, Reservations
from tonnage.extender.verbs import Verb, VerbEndpoint, is_peer
from tonnage.extender.webhook.review import ReviewError
from tonnage.framework.session import Session
from tonnage.model.pod import Pod
from tonnage.server.bodies import BodyError, BodyReader
from tonnage.server.callers import Refusal, certificate_names, from_loopback
from tonnage.server.health import Health
from tonnage.server.inflight import InFlight
from tonnage.server.routing import ExactRoutes

log = logging.getLogger(__name__)

LARGEST_BODY = 128 * 2**20
"""Also of all that are being received; the whole nodes of a large cluster take about 50 MB."""
LARGEST_BIND = 64 * 2**10
LARGEST_REVIEW, REVIEWS_TOGETHER = 8 * 2**20, 32 * 2**20
"""One admission review, and all that are being received; the API server takes pods of 3 MiB at most."""
MOST_IN_FLIGHT = 64
"""Requests of one verb at once, except binds, which wait for their turn."""
SYNC_SECONDS = 25.0
"""How long a request waits for the informer's first sync: kube-scheduler gives its extender 30 seconds."""
_BEHIND_STEP, _BEHIND_STEPS = 0.02, 50
"""How long a filter waits until the watch has caught up with kube-scheduler's: seconds, and how often."""
_ALWAYS_SCORED = 100
"""With so many nodes or fewer, kube-scheduler looks at all of them."""

Review = Callable[[bytes], bytes]


class Extender:
    """Answers requests about one cluster."""

    def __init__(
        self,
        session: Session,
        reservations: Reservations,
        binder: Binder,
        synced: asyncio.Event,
        clock: Callable[[], float],
        recorder: ExtenderRecorder,
        review: Review,
        decides: bool = True,
        on_filtered: Callable[[FilterArgs, Filtered], None] = lambda args, filtered: None,
        replicas: Replicas | None = None,
    ) -> None:
        self._session = session
        self._reservations = reservations
        self._binder = binder
        self._synced = synced
        self._clock = clock
        self._recorder = recorder
        self._review = review
        self._logged_sampling = False
        self._decides = decides
        """Whether `filter` decides; otherwise kube-scheduler does, and `bind` chooses the cards."""
        self._on_filtered = on_filtered
        """Called with every answer to `filter` before it is sent."""
        self._replicas = replicas
        self._reviews = BodyReader(LARGEST_REVIEW, REVIEWS_TOGETHER)
        bodies, binds = BodyReader(LARGEST_BODY, LARGEST_BODY), BodyReader(LARGEST_BIND)
        nothing: list[HostPriority] = []
        self._verbs: tuple[Verb[Any], ...] = (
            Verb("filter", FilterArgs, self.filter, lambda text: FilterResult(error=text), bodies),
            Verb("prioritize", FilterArgs, self.prioritize, lambda text: nothing, bodies),
            Verb("preempt", PreemptArgs, self.preempt, lambda text: PreemptResult(), bodies),
        )
        self._bind = Verb("bind", BindArgs, self.bind, BindResult, binds)

    def app(self, health: Health) -> ASGIApp:
        """The routes for kube-scheduler, the API server and probes."""
        webhook = Route("/webhook", self.webhook, methods=["POST"])
        return ExactRoutes([*self._routes(_refused_verb), webhook, *health.routes()])

    def peer_app(self) -> ASGIApp:
        """The routes for other replicas, which forward what their kube-scheduler asks."""
        return ExactRoutes(self._routes(_refused_peer))

    def _routes(self, refusal: Refusal) -> list[Route]:
        endpoints: dict[str, ASGIApp] = {
            verb.name: InFlight(VerbEndpoint(verb, refusal, self._replicas), MOST_IN_FLIGHT) for verb in self._verbs
        }
        endpoints[self._bind.name] = VerbEndpoint(self._bind, refusal, self._replicas)
        return [Route(f"/{name}", endpoint, methods=["POST"]) for name, endpoint in endpoints.items()]

    async def filter(self, args: FilterArgs) -> FilterResult:
        if not await self._is_synced():
            return FilterResult(error="the informer has not synced yet")
        self._log_sampling(args)
        await self._until_shown(args.pod)
        started = self._clock()
        filtered = self._reservations.filter(args, started) if self._decides else self._reservations.feasible(args)
        self._recorder.filtered(args, filtered, self._clock() - started)
        self._on_filtered(args, filtered)
        return filtered.result

    async def _until_shown(self, pod: Pod | None) -> None:
        """Give the watch a moment if it still shows an earlier pod of that name: kube-scheduler's may be ahead."""
        for _ in range(_BEHIND_STEPS):
            if pod is None or not self._reservations.is_behind(pod):
                return
            await asyncio.sleep(_BEHIND_STEP)

    def _log_sampling(self, args: FilterArgs) -> None:
        """Log once that kube-scheduler samples nodes, which harms a packing policy."""
        nodes, names = len(self._session.cluster.nodes), len(args.node_names or ())
        if not self._logged_sampling and names and names == _sample_of(nodes):
            self._logged_sampling = True
            log.warning(
                "kube-scheduler sends %d of %d nodes, as many as it stops at by default; set percentageOfNodesToScore: "
                "100 in its configuration, or pods are packed onto a rotating sample of the nodes",
                names,
                nodes,
            )

    async def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        return self._reservations.prioritize(args) if await self._is_synced() else []

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        return preempt(self._session, args) if await self._is_synced() else PreemptResult()

    async def bind(self, args: BindArgs) -> BindResult:
        if not await self._is_synced():
            return BindResult("the informer has not synced yet")
        started = self._clock()
        try:
            decision = await self._binder.bind(args)
        except (BindError, BindUnknownError) as error:
            self._recorder.not_bound(args, str(error), self._clock() - started)
            return BindResult(str(error))
        self._recorder.bound(args, decision, self._clock() - started)
        return BindResult()

    async def webhook(self, request: Request) -> Response:
        try:
            body = await self._reviews.read(request.scope, request.receive)
            return Response(self._review(body), media_type="application/json")
        except BodyError as error:
            return PlainTextResponse(str(error), error.status, {"Retry-After": "1"})
        except ReviewError as error:
            return PlainTextResponse(str(error), 400)

    async def _is_synced(self) -> bool:
        if self._synced.is_set():
            return True
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True


def _sample_of(nodes: int) -> int | None:
    """The number of feasible nodes at which kube-scheduler stops by default; None if it looks at all nodes."""
    if nodes <= _ALWAYS_SCORED:
        return None
    percent = max(50 - nodes // 125, 5)
    return max(nodes * percent // 100, _ALWAYS_SCORED)


def _refused_verb(scope: Scope) -> str:
    """Only the kube-scheduler beside the extender may call a verb, or one with a client certificate."""
    if from_loopback(scope) or certificate_names(scope) is not None:
        return ""
    return (
        "this verb answers the kube-scheduler on the extender's own host only, by its loopback address; for one "
        "elsewhere, start the extender with --client-ca-file and give kube-scheduler a client certificate in the "
        "tlsConfig of its extender"
    )


def _refused_peer(scope: Scope) -> str:
    if is_peer(scope):
        return ""
    return f"a replica's certificate has the DNS name {PEER_NAME}; this one has not"
