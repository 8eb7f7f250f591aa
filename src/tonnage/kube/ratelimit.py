"""The rate limit of requests: a token bucket, and the one that `--kube-qps` and `--kube-burst` ask for."""

import asyncio
from math import ceil, inf

LEAST_QPS = 50
"""Below this many requests a second, binds wait for the limit rather than for the API server."""
_BURST_SECONDS = 2
"""The burst, in seconds of the rate, if none is given."""


class RateLimit:
    """A token bucket that fills at a rate, up to the burst; those who wait are served in their order."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        """Below zero while requests wait."""
        self._filled_at: float | None = None

    async def take(self, within: float = inf) -> bool:
        """Take one token, waiting until there is one; False at once if that takes longer than `within` seconds."""
        now = asyncio.get_running_loop().time()
        since = now if self._filled_at is None else self._filled_at
        self._tokens, self._filled_at = min(self._burst, self._tokens + (now - since) * self._per_second), now
        wait = (1 - self._tokens) / self._per_second
        if wait > within:
            return False
        self._tokens -= 1
        if wait > 0:
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self._tokens += 1
                raise
        return True


def request_limit(qps: float | None, burst: int | None) -> RateLimit | None:
    """The limit of all requests to the API server; None if none is wanted."""
    if not qps:
        return None
    return RateLimit(qps, max(1, ceil(qps * _BURST_SECONDS) if burst is None else burst))


def limit_warnings(qps: float | None, burst: int | None) -> list[str]:
    """What is doubtful about a limit, in sentences."""
    if not qps:
        return ["--kube-burst has no effect without --kube-qps"] if burst is not None else []
    given = {"--kube-qps": qps, "--kube-burst": burst}
    return [
        f"{name} is {value:g}: pods wait for this limit when many are bound at once; "
        f"give {LEAST_QPS} or more, or leave it out for no limit"
        for name, value in given.items()
        if value is not None and value < LEAST_QPS
    ]
