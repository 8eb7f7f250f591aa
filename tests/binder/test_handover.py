"""One pod per node at a time between its Binding and its device plugin's answer."""

import asyncio
import time

import msgspec
import pytest

from tests.scenario import node, plain, pod, scenario
from tonnage.binder.handover import GuessingPlugins, HandoverQueue


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def phased(name, phase, on="a", status="Pending"):
    return pod(name, 1, on=on, phase=status, annotations={"hami.io/bind-phase": phase})


async def bound(handovers, node, thing):
    """The pod's turn comes, and its Binding is written."""
    assert await handovers.acquire(node, thing, 5)
    handovers.written(node, thing)


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_second_pod_waits_until_the_first_is_answered():
    async def main():
        handovers = HandoverQueue(Clock())
        await bound(handovers, "a", pod("p"))
        second = asyncio.create_task(handovers.acquire("a", pod("q"), 5))
        assert await handovers.acquire("b", pod("r"), 5)
        await settled()
        assert not second.done()
        assert handovers.waiting == 1
        handovers.seen("default/p", phased("p", "allocating"), is_gone=False)
        await settled()
        assert not second.done()
        handovers.seen("default/p", phased("p", "success"), is_gone=False)
        assert await second
        assert handovers.holder("a") == "default/q"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("annotations", "offered", "waits"),
    [({}, 10, True), ({"tonnage.io/agent": "1,boot"}, 10, False), ({"tonnage.io/agent": "1,boot"}, 0, True)],
    ids=["HAMi's plugin guesses", "an agent does not", "the agent is gone"],
)
def test_on_the_node_of_an_agent_nobody_waits(annotations, offered, waits):
    async def main():
        made = node("a", gpus=1, annotations=annotations)
        status = msgspec.structs.replace(made.status, allocatable={"nvidia.com/gpu": str(offered)})
        cluster = scenario(msgspec.structs.replace(made, status=status))
        handovers = HandoverQueue(Clock(), GuessingPlugins(cluster))
        await bound(handovers, "a", pod("p", 1))
        second = asyncio.create_task(handovers.acquire("a", pod("q", 1), 5))
        await settled()
        assert second.done() is not waits
        assert handovers.silent() == set()
        second.cancel()

    asyncio.run(main())


def test_a_pod_with_a_part_of_a_card_takes_its_turn_although_the_kubelet_asks_nobody_for_it():
    """Its annotations say that it waits for cards, so a plugin that is asked for another pod could take it for that."""

    async def main():
        handovers = HandoverQueue(Clock(), GuessingPlugins(scenario(node("a", gpus=1))))
        await bound(handovers, "a", pod("p", 1))
        part = asyncio.create_task(handovers.acquire("a", pod("q", annotations={"gpu-fraction": "0.5"}), 5))
        await settled()
        assert not part.done()
        handovers.seen("default/p", phased("p", "success"), is_gone=False)
        assert await part

    asyncio.run(main())


def test_pods_enter_in_the_order_in_which_they_came():
    async def main():
        handovers, order = HandoverQueue(Clock()), []

        async def one(name):
            await handovers.acquire("a", pod(name), 5)
            order.append(name)

        await handovers.acquire("a", pod("first"), 5)
        tasks = [asyncio.create_task(one(name)) for name in "pqr"]
        await settled()
        for name in ("first", "p", "q"):
            handovers.release("a", pod(name))
            await settled()
        assert order == ["p", "q", "r"]
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_whoever_waits_too_long_is_told_and_the_next_one_is_not_held_up():
    async def main():
        loop = asyncio.get_running_loop()
        handovers = HandoverQueue(loop.time)
        await handovers.acquire("a", pod("p"), 5)
        assert not await handovers.acquire("a", pod("q"), 0.01)
        third = asyncio.create_task(handovers.acquire("a", pod("r"), 5))
        await settled()
        handovers.release("a", pod("p"))
        assert await third
        assert handovers.waiting == 0

    asyncio.run(main())


def test_one_that_goes_away_while_waiting_leaves_its_turn_to_the_next():
    async def main():
        handovers = HandoverQueue(Clock())
        await handovers.acquire("a", pod("p"), 5)
        second, third = (asyncio.create_task(handovers.acquire("a", pod(name), 5)) for name in "qr")
        await settled()
        handovers.release("a", pod("p"))
        second.cancel()
        assert await third
        assert handovers.holder("a") == "default/r"

    asyncio.run(main())


def test_an_answer_is_anything_but_allocating_on_a_pending_pod():
    async def main():
        for shown in (
            phased("p", "success"),
            phased("p", "failed"),
            phased("p", "allocating", status="Running"),
            phased("p", "allocating", status="Failed"),
        ):
            handovers = HandoverQueue(Clock())
            await bound(handovers, "a", pod("p"))
            handovers.seen("default/p", shown, is_gone=False)
            assert handovers.holder("a") is None
        handovers = HandoverQueue(Clock())
        await bound(handovers, "a", pod("p"))
        handovers.seen("default/p", None, is_gone=True)
        assert handovers.holder("a") is None

    asyncio.run(main())


def test_old_news_of_a_pod_whose_binding_is_on_its_way_does_not_let_the_next_one_in():
    async def main():
        handovers = HandoverQueue(Clock())
        await handovers.acquire("a", pod("p"), 5)
        handovers.seen("default/p", pod("p", 1), is_gone=False)
        handovers.seen("default/other", phased("other", "success"), is_gone=False)
        assert handovers.holder("a") == "default/p"

    asyncio.run(main())


def test_a_pod_that_another_process_bound_keeps_the_node_busy():
    async def main():
        handovers = HandoverQueue(Clock())
        handovers.seen("default/p", phased("p", "allocating"), is_gone=False)
        second = asyncio.create_task(handovers.acquire("a", pod("q"), 5))
        await settled()
        assert not second.done()
        handovers.seen("default/p", phased("p", "success"), is_gone=False)
        assert await second

    asyncio.run(main())


def test_a_node_is_silent_while_its_plugin_does_not_answer_about_a_pod_that_this_process_bound():
    async def main():
        clock = Clock()
        handovers = HandoverQueue(clock)
        await bound(handovers, "a", phased("p", "allocating"))
        handovers.seen("default/p", phased("p", "allocating"), is_gone=False)
        assert handovers.silent() == set()
        clock.now = 30.0
        assert handovers.silent() == {"a"}
        handovers.seen("default/p", phased("p", "success"), is_gone=False)
        assert handovers.silent() == set()

    asyncio.run(main())


def test_a_node_is_busy_from_a_bind_that_waited_in_vain_until_nobody_waits_there():
    async def main():
        handovers = HandoverQueue(Clock())
        await bound(handovers, "a", phased("p", "allocating"))
        patient = asyncio.create_task(handovers.acquire("a", pod("q"), 5))
        assert handovers.busy() == set()
        assert not await handovers.acquire("a", pod("r"), 0.01)
        assert handovers.busy() == {"a"}
        handovers.seen("default/p", phased("p", "success"), is_gone=False)
        assert await patient
        assert handovers.busy() == {"a"}, "q is served now"
        handovers.written("a", pod("q"))
        handovers.seen("default/q", phased("q", "success"), is_gone=False)
        assert handovers.busy() == set()

    asyncio.run(main())


def test_a_bind_that_gives_up_in_the_moment_in_which_the_node_becomes_free_does_not_leave_it_busy():
    async def main():
        handovers, answered = HandoverQueue(Clock()), phased("p", "success")
        await bound(handovers, "a", phased("p", "allocating"))
        late = asyncio.create_task(handovers.acquire("a", pod("q"), 0.01))
        await settled()
        asyncio.get_running_loop().call_later(0.02, handovers.seen, "default/p", answered, False)
        time.sleep(0.05)  # a busy event loop finds both due at once
        assert not await late
        assert handovers.holder("a") is None
        assert handovers.busy() == set()

    asyncio.run(main())


# -- what tenants write


def owned(name, phase, uid="1", gpus=1, **more):
    """A pending pod on the node, with a UID and what its author wrote."""
    made = pod(name, gpus, on="a", phase="Pending", annotations={"hami.io/bind-phase": phase}, **more)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=uid))


def test_a_pod_that_this_process_did_not_bind_keeps_others_waiting_for_a_while_and_silences_no_node():
    async def main():
        clock = Clock()
        handovers = HandoverQueue(clock)
        handovers.seen("default/p", owned("p", "allocating"), is_gone=False)
        clock.now = 29.9
        assert handovers.holder("a") == "default/p"
        second = asyncio.create_task(handovers.acquire("a", pod("q"), 5))
        await settled()
        assert not second.done()
        clock.now = 30.0
        assert handovers.silent() == set()
        assert await second
        # Nor does anything that is written on it later.
        handovers.release("a", pod("q"))
        handovers.seen("default/p", owned("p", "allocating"), is_gone=False)
        assert handovers.holder("a") is None

    asyncio.run(main())


@pytest.mark.parametrize("answer", ["success", "failed"])
def test_a_pod_takes_part_once_whatever_is_written_after_the_answer(answer):
    async def main():
        clock = Clock()
        handovers = HandoverQueue(clock)
        await bound(handovers, "a", owned("p", "allocating"))
        handovers.seen("default/p", owned("p", answer), is_gone=False)
        for phase in ("allocating", answer, "allocating"):
            handovers.seen("default/p", owned("p", phase), is_gone=False)
            assert handovers.holder("a") is None
        # Another pod of the same name is another one.
        handovers.seen("default/p", None, is_gone=True)
        handovers.seen("default/p", owned("p", "allocating", uid="2"), is_gone=False)
        assert handovers.holder("a") == "default/p"

    asyncio.run(main())


@pytest.mark.parametrize(
    "author",
    [
        owned("p", "allocating", gpus=None),
        # The kubelet gives out nothing for these: no such device is on the node, nor does memory alone count one.
        owned("p", "allocating", gpus=None, **{"cambricon.com/vmlu": 1}),
        owned("p", "allocating", gpus=None, memory=1000),
    ],
)
def test_a_pod_for_which_the_kubelet_asks_no_plugin_keeps_nobody_waiting(author):
    async def main():
        handovers = HandoverQueue(Clock(), GuessingPlugins(scenario(node("a", gpus=1))))
        handovers.seen("default/p", author, is_gone=False)
        assert handovers.holder("a") is None
        # If it was bound by this process, its hand-over ends as soon as it is seen bound.
        await bound(handovers, "a", author)
        handovers.seen("default/p", author, is_gone=False)
        assert handovers.holder("a") is None

    asyncio.run(main())


def test_a_pod_with_a_device_request_takes_part_whatever_its_scheduler_is_called():
    handovers = HandoverQueue(Clock(), GuessingPlugins(scenario(node("a", gpus=1))))
    handovers.seen("default/p", owned("p", "allocating"), is_gone=False)
    assert handovers.holder("a") == "default/p"


def test_the_kubelet_gives_out_plain_cards_without_a_plugin_that_answers():
    handovers = HandoverQueue(Clock(), GuessingPlugins(scenario(plain("a", 1))))
    handovers.seen("default/p", owned("p", "allocating"), is_gone=False)
    assert handovers.holder("a") is None


def reborn(uid, created, **more):
    """One of several pods that had the same name one after another."""
    made = phased("p", "allocating", **more)
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, uid=uid, creationTimestamp=created)
    )


@pytest.mark.parametrize("created", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_old_news_of_an_earlier_pod_of_the_same_name_does_not_let_the_next_one_in(created, is_gone):
    async def main():
        handovers = HandoverQueue(Clock())
        await bound(handovers, "a", reborn("second", created, on=None))
        handovers.seen("default/p", reborn("first", "2026-01-01T00:00:00Z", status="Running"), is_gone)
        assert handovers.holder("a") == "default/p"
        handovers.seen("default/p", reborn("second", created), is_gone=False)
        assert handovers.holder("a") == "default/p"
        handovers.seen("default/p", reborn("second", created, status="Running"), is_gone=False)
        assert handovers.holder("a") is None

    asyncio.run(main())


@pytest.mark.parametrize("was_shown", [False, True])
def test_a_later_pod_of_the_same_name_means_that_the_earlier_one_is_gone(was_shown):
    async def main():
        handovers = HandoverQueue(Clock())
        first, created = reborn("first", "2026-01-01T00:00:00Z"), "2026-01-01T00:00:09Z"
        await bound(handovers, "a", first)
        if was_shown:
            handovers.seen("default/p", first, is_gone=False)
            created = "2026-01-01T00:00:00Z"
        handovers.seen("default/p", reborn("second", created, on=None), is_gone=False)
        assert handovers.holder("a") is None

    asyncio.run(main())


def test_a_pod_that_somebody_else_bound_meanwhile_keeps_the_node_busy_too():
    async def main():
        handovers = HandoverQueue(Clock())
        await bound(handovers, "a", pod("p"))
        handovers.seen("default/late", phased("late", "allocating"), is_gone=False)
        second = asyncio.create_task(handovers.acquire("a", pod("q"), 5))
        await settled()
        handovers.seen("default/p", phased("p", "success"), is_gone=False)
        await settled()
        assert not second.done()
        handovers.seen("default/late", phased("late", "success"), is_gone=False)
        assert await second

    asyncio.run(main())


def test_a_pod_that_turns_out_to_be_on_another_node_keeps_only_that_one_busy():
    async def main():
        handovers = HandoverQueue(Clock())
        await bound(handovers, "a", pod("p"))
        handovers.seen("default/p", phased("p", "allocating", on="b"), is_gone=False)
        assert handovers.holder("a") is None
        assert handovers.holder("b") == "default/p"

    asyncio.run(main())


@pytest.mark.parametrize("end", ["release", "written"])
def test_while_a_bind_writes_nobody_else_is_let_in_even_if_its_pod_is_gone(end):
    async def main():
        handovers = HandoverQueue(Clock())
        await handovers.acquire("a", pod("p"), 5)
        second = asyncio.create_task(handovers.acquire("a", pod("q"), 5))
        handovers.seen("default/p", None, is_gone=True)
        await settled()
        assert not second.done()
        getattr(handovers, end)("a", pod("p"))
        assert await second

    asyncio.run(main())
