"""Background work that fails: seen, begun again, and after too many failures the end of the process."""

import asyncio
import logging

import pytest

from tests import virtualtime
from tonnage.kube import supervision
from tonnage.kube.supervision import GaveUpError, background, keep_running, watch_callbacks


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "failures", supervision.failures.copy())


class Loop:
    """Fails so many times, each after a while."""

    def __init__(self, failures: int, seconds: float = 0.0) -> None:
        self.left = failures
        self.seconds = seconds
        self.begun: list[float] = []

    async def run(self) -> None:
        self.begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        if self.left:
            self.left -= 1
            raise ValueError("a bad object")


async def kept(name: str, loop: Loop) -> None:
    await keep_running(name, loop.run, asyncio.get_running_loop().time)


def test_a_loop_that_fails_is_begun_again_after_a_pause_that_doubles(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(5)
    virtualtime.run(kept("problems", loop))
    assert loop.begun == pytest.approx([0.0, 0.1, 0.3, 0.7, 1.5, 3.1])
    assert supervision.failures["problems"] == 5
    assert "problems failed: ValueError: a bad object" in caplog.text


def test_one_that_fails_again_and_again_gives_up_and_says_why() -> None:
    loop = Loop(10_000)
    with pytest.raises(GaveUpError, match=r"problems failed \d+ times in a row in 1m\d+s, .* ValueError: a bad object"):
        virtualtime.run(kept("problems", loop))
    assert len(loop.begun) >= 10
    assert 60.0 <= loop.begun[-1] < 120.0


def test_one_that_runs_for_a_while_in_between_never_gives_up() -> None:
    loop = Loop(100, seconds=61.0)
    virtualtime.run(kept("problems", loop))
    assert len(loop.begun) == 101


def test_giving_up_inside_a_group_of_tasks_ends_the_loop_around_it_too() -> None:
    async def inner() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kept("bind", Loop(10_000)))

    async def main() -> None:
        await keep_running("outer", inner, asyncio.get_running_loop().time)

    with pytest.raises(GaveUpError, match="bind failed"):
        virtualtime.run(main())


def test_a_task_in_the_background_fails_alone_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tasks: set[asyncio.Task[None]] = set()
        background("eviction", Loop(1).run(), tasks)
        assert len(tasks) == 1
        await asyncio.sleep(1.0)
        assert not tasks

    virtualtime.run(main())
    assert supervision.failures["eviction"] == 1
    assert "eviction failed: ValueError: a bad object" in caplog.text


def test_a_timer_that_fails_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watch_callbacks(loop)
        loop.call_later(1.0, lambda: 1 / 0)
        await asyncio.sleep(2.0)

    with caplog.at_level(logging.ERROR):
        virtualtime.run(main())
    assert supervision.failures["callback"] == 1
    assert "ZeroDivisionError" in caplog.text
