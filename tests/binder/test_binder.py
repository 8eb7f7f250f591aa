"""The part of a bind that both servers share: the turn, the check, the write, and the outcome that comes late."""

import asyncio

import pytest

from tests.scenario import node, pod, scenario
from tonnage.binder.binder import PodBinder
from tonnage.binder.binding import BindError, BindUnknownError
from tonnage.binder.handover import HandoverQueue
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins


class Writer:
    """Answers a write with what is planned, and says what was found out about the pod."""

    def __init__(self, failure=None, found=True):
        self.failure, self.found = failure, found
        self.labelled = []
        self.answer = asyncio.Event()

    async def write(self, decision, handed_over):
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure

    async def is_bound(self, task, goes_on):
        await self.answer.wait()
        return self.found if goes_on() else None

    async def label(self, task, node):
        self.labelled.append((task.name, node))


class World:
    """The pod `p`, decided for a card of node `a`, and a binder."""

    def __init__(self, **planned):
        self.cluster = scenario(node("a", gpus=1), pod("p", gpus=1, memory=1000))
        task = self.cluster.waiting["default/p"]
        with Session(self.cluster, default_plugins()) as session:
            self.decision = session.place(task)
        assert self.decision.node == "a"
        self.writer = Writer(**planned)
        self.handovers = HandoverQueue(lambda: 0.0)
        self.binder = PodBinder(self.writer, self.cluster, self.handovers, lambda: 0.0, turn_seconds=0.01)
        self.is_reserved = True
        self.settled = []

    async def write(self, handed_over=True):
        await self.binder.write(self.decision, lambda: self.is_reserved, self.settled.append, handed_over)


def played(scene, **planned):
    async def main():
        world = World(**planned)
        await scene(world)
        await world.binder.close(1.0)
        assert (world.binder.in_flight, world.binder.unanswered, world.binder.behind) == (0, 0, 0)

    asyncio.run(main())


@pytest.mark.parametrize(("handed_over", "labels"), [(True, [("p", "a")]), (False, [])])
def test_a_bound_pod_that_is_handed_over_gets_its_label(handed_over, labels):
    async def scene(world):
        await world.write(handed_over)
        await world.binder.close(1.0)
        assert world.writer.labelled == labels
        assert world.settled == [], "the caller knows already"

    played(scene)


def test_a_node_that_stays_busy_is_an_error_that_names_the_holder():
    async def scene(world):
        await world.handovers.acquire("a", pod("other"), 1)
        with pytest.raises(BindError, match="a is busy: default/other waits for its devices there"):
            await world.binder.wait_for_turn(world.decision)

    played(scene)


def test_a_place_that_is_lost_is_not_written_and_repeating_makes_no_sense():
    async def scene(world):
        world.cluster.remove_node("a")
        with pytest.raises(BindError, match="its place is free again: node a is gone") as raised:
            await world.write()
        assert raised.value.lasting
        assert world.binder.unanswered == 0

    played(scene)


def test_after_a_refusal_the_turn_lasts_until_the_caller_leaves():
    async def scene(world):
        await world.binder.wait_for_turn(world.decision)
        with pytest.raises(BindError, match="no"):
            await world.write()
        world.handovers.seen("default/p", None, is_gone=True)
        assert world.handovers.holder("a") == "default/p", "the caller may write again"
        world.binder.leave(world.decision)
        assert world.handovers.holder("a") is None

    played(scene, failure=BindError("no"))


@pytest.mark.parametrize(
    ("found", "labels"),
    [(True, [("p", "a")]), (False, []), (None, [])],
    ids=["bound", "not bound", "not reserved any more"],
)
def test_an_unknown_outcome_is_settled_once_it_is_known(found, labels):
    async def scene(world):
        world.is_reserved = found is not None
        with pytest.raises(BindUnknownError):
            await world.write()
        assert (world.binder.unanswered, world.settled) == (1, [])
        world.writer.answer.set()
        await world.binder.close(1.0)
        assert world.settled == [found]
        assert world.writer.labelled == labels

    played(scene, failure=BindUnknownError("no answer"), found=found)


def test_closing_ends_what_takes_too_long():
    async def scene(world):
        with pytest.raises(BindUnknownError):
            await world.write()
        await world.binder.close(0.01)
        assert (world.binder.unanswered, world.settled) == (0, [])

    played(scene, failure=BindUnknownError("no answer"))
