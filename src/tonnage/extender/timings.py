"""How long requests take, as a histogram beside those of binds and the watch."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Histogram
from starlette.types import ASGIApp, Receive, Scope, Send

from tonnage.observability.timings import BUCKETS, BindTimings

VERBS = ("filter", "prioritize", "preempt", "bind", "webhook")
"""What is asked, each at a path of its own."""


class Timings(BindTimings):
    """Histograms that hang on to what goes on in an extender."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self.request_seconds = Histogram(
            "tonnage_request_seconds",
            "Time from a request's head to the end of its answer.",
            ("verb",),
            buckets=BUCKETS,
            registry=registry,
        )
        super().__init__(registry, clock)

    def timed(self, app: ASGIApp) -> ASGIApp:
        """The application, with the time that it takes for each request measured."""
        observers = {f"/{verb}": self.request_seconds.labels(verb).observe for verb in VERBS}

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            observe = observers.get(scope.get("path", ""))
            if observe is None:
                await app(scope, receive, send)
                return
            begun = self._clock()
            try:
                await app(scope, receive, send)
            finally:
                observe(self._clock() - begun)

        return answer
