"""The rate limit of writes: a token bucket."""

import asyncio


class RateLimit:
    """A token bucket that fills at a rate, up to the burst."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at: float | None = None

    async def take(self) -> None:
        """Take one token; waits until there is one."""
        clock = asyncio.get_running_loop().time
        while True:
            now = clock()
            since = now if self._filled_at is None else self._filled_at
            self._tokens, self._filled_at = min(self._burst, self._tokens + (now - since) * self._per_second), now
            if self._tokens >= 1:
                self._tokens -= 1
                return
            await asyncio.sleep((1 - self._tokens) / self._per_second)
