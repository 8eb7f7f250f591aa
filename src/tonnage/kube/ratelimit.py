"""How often something may be done: so many times at once, and then at a rate."""

import asyncio


class RateLimit:
    """Grows with time up to a limit; each time takes one of it."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._since: float | None = None

    async def take(self) -> None:
        """Wait until it may be done once more."""
        clock = asyncio.get_running_loop().time
        while True:
            now = clock()
            since = now if self._since is None else self._since
            self._left, self._since = min(self._burst, self._left + (now - since) * self._per_second), now
            if self._left >= 1:
                self._left -= 1
                return
            await asyncio.sleep((1 - self._left) / self._per_second)
