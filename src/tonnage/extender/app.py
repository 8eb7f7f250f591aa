"""HTTP routes of `tonnage extender`: the requests of kube-scheduler and of the API server's webhook.

A request that cannot be read is answered with a sentence in `Error`, as kube-scheduler expects; it shows in the pod's
Events.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tonnage.binder.binding import BindError, BindUnknownError
from tonnage.extender.binding import Binder
from tonnage.extender.forwarding import FORWARDED
from tonnage.extender.preemption import PreemptArgs, PreemptResult, preempt
from tonnage.extender.protocol import BindArgs, BindResult, FilterArgs, FilterResult, HostPriority, read
from tonnage.extender.recorder import ExtenderRecorder
from tonnage.extender.replicas import NobodyLeadsError, Replicas
from tonnage.extender.reservations import Filtered, Reservations
from tonnage.extender.webhook.review import ReviewError
from tonnage.framework.session import Session
from tonnage.model.wire import WireError, encode

log = logging.getLogger(__name__)

LARGEST_BODY = 256 * 2**20
"""The whole nodes of a large cluster take about 50 MB."""
SYNC_SECONDS = 25.0
"""How long a request waits for the informer's first sync: kube-scheduler gives its extender 30 seconds."""
_JSON = "application/json"
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

    def app(self) -> Starlette:
        """The routes."""
        return Starlette(
            routes=[
                Route("/filter", self.filter, methods=["POST"]),
                Route("/prioritize", self.prioritize, methods=["POST"]),
                Route("/preempt", self.preempt, methods=["POST"]),
                Route("/bind", self.bind, methods=["POST"]),
                Route("/webhook", self.webhook, methods=["POST"]),
                Route("/healthz", self.healthz),
                Route("/readyz", self.readyz),
            ]
        )

    async def filter(self, request: Request) -> Response:
        async def answer(body: bytes) -> object:
            args = read(body, FilterArgs)
            if not await self._is_synced():
                return FilterResult(error="the informer has not synced yet")
            self._log_sampling(args)
            started = self._clock()
            filtered = self._reservations.filter(args, started) if self._decides else self._reservations.feasible(args)
            self._recorder.filtered(args, filtered, self._clock() - started)
            self._on_filtered(args, filtered)
            return filtered.result

        return await self._answer(request, answer, lambda text: FilterResult(error=text))

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

    async def prioritize(self, request: Request) -> Response:
        async def answer(body: bytes) -> object:
            args = read(body, FilterArgs)
            return self._reservations.prioritize(args) if await self._is_synced() else []

        nothing: list[HostPriority] = []
        return await self._answer(request, answer, lambda text: nothing)

    async def preempt(self, request: Request) -> Response:
        async def answer(body: bytes) -> object:
            args = read(body, PreemptArgs)
            return preempt(self._session, args) if await self._is_synced() else PreemptResult()

        return await self._answer(request, answer, lambda text: PreemptResult())

    async def bind(self, request: Request) -> Response:
        async def answer(body: bytes) -> object:
            args = read(body, BindArgs)
            if not args.name or not args.node:
                return BindResult("the request names no pod or no node")
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

        return await self._answer(request, answer, BindResult)

    async def webhook(self, request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return PlainTextResponse("the request is too large", 413)
        try:
            return Response(self._review(body), media_type=_JSON)
        except ReviewError as error:
            return PlainTextResponse(str(error), 400)

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(self, request: Request) -> Response:
        if self._synced.is_set():
            return PlainTextResponse("ok")
        return PlainTextResponse("the informer has not synced yet", 503)

    async def _is_synced(self) -> bool:
        if self._synced.is_set():
            return True
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    async def _answer(
        self, request: Request, answer: Callable[[bytes], Awaitable[object]], failed: Callable[[str], object]
    ) -> Response:
        body = await _body(request)
        if body is None:
            return self._json(failed(f"the request is larger than {LARGEST_BODY} bytes"))
        try:
            if self._replicas is not None:
                path, was_forwarded = request.url.path, FORWARDED in request.headers
                answered = await self._replicas.answer_elsewhere(path, body, was_forwarded)
                if answered is not None:
                    return Response(answered, media_type=_JSON)
            return self._json(await answer(body))
        except NobodyLeadsError as error:
            return self._json(failed(str(error)))
        except WireError as error:
            where = f" at {error.path}" if error.path else ""
            return self._json(failed(f"the request cannot be read{where}: {error.message}"))
        except Exception as error:
            log.exception("%s failed", request.url.path)
            return self._json(failed(f"{type(error).__name__}: {error}"))

    @staticmethod
    def _json(result: Any) -> Response:
        return Response(encode(result), media_type=_JSON)


def _sample_of(nodes: int) -> int | None:
    """The number of feasible nodes at which kube-scheduler stops by default; None if it looks at all nodes."""
    if nodes <= _ALWAYS_SCORED:
        return None
    percent = max(50 - nodes // 125, 5)
    return max(nodes * percent // 100, _ALWAYS_SCORED)


async def _body(request: Request) -> bytes | None:
    """The body; None if it is too large."""
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > LARGEST_BODY:
                return None
            parts.append(part)
    except ClientDisconnect:
        return b""
    return b"".join(parts)
