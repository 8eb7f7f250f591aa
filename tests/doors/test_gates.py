"""One pod per node at a time between its Binding and its device plugin's answer."""

import asyncio

from tests.scenario import pod
from tonnage.doors.gates import Gates


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def phased(name, phase, on="a", status="Pending"):
    return pod(name, 1, on=on, phase=status, annotations={"hami.io/bind-phase": phase})


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_second_pod_waits_until_the_first_is_answered():
    async def main():
        gates = Gates(Clock())
        assert await gates.enter("a", "p", 5)
        second = asyncio.create_task(gates.enter("a", "q", 5))
        assert await gates.enter("b", "r", 5)
        await settled()
        assert not second.done()
        assert gates.waiting == 1
        gates.seen("p", phased("p", "allocating"), is_gone=False)
        await settled()
        assert not second.done()
        gates.seen("p", phased("p", "success"), is_gone=False)
        assert await second
        assert gates.inside("a") == "q"

    asyncio.run(main())


def test_pods_enter_in_the_order_in_which_they_came():
    async def main():
        gates, order = Gates(Clock()), []

        async def one(name):
            await gates.enter("a", name, 5)
            order.append(name)

        await gates.enter("a", "first", 5)
        tasks = [asyncio.create_task(one(name)) for name in "pqr"]
        await settled()
        for name in ("first", "p", "q"):
            gates.leave("a", name)
            await settled()
        assert order == ["p", "q", "r"]
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_whoever_waits_too_long_is_told_and_the_next_one_is_not_held_up():
    async def main():
        loop = asyncio.get_running_loop()
        gates = Gates(loop.time)
        await gates.enter("a", "p", 5)
        assert not await gates.enter("a", "q", 0.01)
        third = asyncio.create_task(gates.enter("a", "r", 5))
        await settled()
        gates.leave("a", "p")
        assert await third
        assert gates.waiting == 0

    asyncio.run(main())


def test_one_that_goes_away_while_waiting_leaves_its_turn_to_the_next():
    async def main():
        gates = Gates(Clock())
        await gates.enter("a", "p", 5)
        second, third = (asyncio.create_task(gates.enter("a", name, 5)) for name in "qr")
        await settled()
        gates.leave("a", "p")
        second.cancel()
        assert await third
        assert gates.inside("a") == "r"

    asyncio.run(main())


def test_an_answer_is_anything_but_allocating_on_a_pending_pod():
    async def main():
        for shown in (
            phased("p", "success"),
            phased("p", "failed"),
            phased("p", "allocating", status="Running"),
            phased("p", "allocating", status="Failed"),
        ):
            gates = Gates(Clock())
            await gates.enter("a", "p", 5)
            gates.seen("p", shown, is_gone=False)
            assert gates.inside("a") is None
        gates = Gates(Clock())
        await gates.enter("a", "p", 5)
        gates.seen("p", None, is_gone=True)
        assert gates.inside("a") is None

    asyncio.run(main())


def test_old_news_of_a_pod_whose_binding_is_on_its_way_does_not_let_the_next_one_in():
    async def main():
        gates = Gates(Clock())
        await gates.enter("a", "p", 5)
        gates.seen("p", pod("p", 1), is_gone=False)
        gates.seen("other", phased("other", "success"), is_gone=False)
        assert gates.inside("a") == "p"

    asyncio.run(main())


def test_a_pod_that_another_process_bound_keeps_the_node_busy():
    async def main():
        clock = Clock()
        gates = Gates(clock)
        gates.seen("p", phased("p", "allocating"), is_gone=False)
        second = asyncio.create_task(gates.enter("a", "q", 5))
        await settled()
        assert not second.done()
        clock.now = 30.0
        assert gates.silent() == {"a"}
        gates.seen("p", phased("p", "success"), is_gone=False)
        assert await second
        assert gates.silent() == set()

    asyncio.run(main())
