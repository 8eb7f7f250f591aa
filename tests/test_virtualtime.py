"""Virtual time is exact and costs none."""

import asyncio
import time

import pytest

from tests.virtualtime import run


def test_sleeps_are_exact_in_order_and_take_no_time():
    told = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        told.append((seconds, asyncio.get_running_loop().time()))

    async def main():
        await asyncio.gather(*map(sleeper, (3600, 0.5, 60)))

    begun = time.monotonic()
    run(main())
    assert [seconds for seconds, _ in told] == [0.5, 60, 3600]
    assert [at for _, at in told] == pytest.approx([0.5, 60, 3600])
    assert time.monotonic() - begun < 3600


def test_what_hangs_runs_into_its_limit_at_once():
    async def main():
        async with asyncio.timeout(300):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run(main())
