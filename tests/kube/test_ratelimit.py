"""How often something may be done."""

import asyncio

from tonnage.kube.ratelimit import RateLimit


def test_a_burst_is_allowed_at_once_and_then_a_rate() -> None:
    async def main() -> tuple[float, float]:
        clock, allowance = asyncio.get_running_loop().time, RateLimit(per_second=50.0, burst=3)
        begun = clock()
        for _ in range(3):
            await allowance.take()
        at_once = clock() - begun
        for _ in range(5):
            await allowance.take()
        return at_once, clock() - begun

    at_once, in_all = asyncio.run(main())
    assert at_once < 0.02
    assert in_all >= 5 / 50 - at_once - 0.001
