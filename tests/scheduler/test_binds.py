"""Binds on their way: the order in which they go, and what becomes of a gang when one of them fails."""

import asyncio

from tests import virtualtime
from tests.groups import add, group, members
from tests.scenario import node, pod, scenario
from tests.scheduler.binding import World, Writer
from tonnage.actions.catalog import make_actions
from tonnage.binder.binding import BindError, BindUnknownError
from tonnage.cluster.cluster import Cluster
from tonnage.framework.decision import Decision
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.binds import TRIES, TURN_SECONDS
from tonnage.scheduler.cyclerunner import CycleRunner


def refused(lasting: bool = False) -> BindError:
    return BindError("no", lasting)


def gang_of_three() -> Cluster:
    cluster = scenario(node("a", cpu="4"), *members("g", 3, cpu=1), pod("z", cpu="1"))
    add(cluster, group("g", 3))
    return cluster


def test_important_pods_go_first_and_places_stay_reserved_until_the_watch_shows_them() -> None:
    cluster = scenario(node("a", cpu="4"), pod("a", cpu="1"), pod("b", cpu="1", priority=5))
    world = World(cluster, Writer())
    world.run()
    assert world.writer.written == ["b", "a"]
    assert cluster.reserved.keys() == {"default/a", "default/b"}


def test_a_refusal_that_passes_is_tried_again() -> None:
    world = World(gang_of_three(), Writer(g_1=[refused()]))
    world.run()
    assert sorted(world.were_bound) == ["g-0", "g-1", "g-2", "z"]
    assert not world.released


def test_a_member_that_cannot_be_bound_frees_the_places_of_those_not_begun() -> None:
    world = World(gang_of_three(), Writer(g_0=[refused(lasting=True)]))
    world.run()
    assert world.were_bound == ["z"]
    assert world.released == [["g-0", "g-1", "g-2"]]
    assert world.cluster.waiting.keys() == {"default/g-0", "default/g-1", "default/g-2"}


def test_members_that_are_bound_by_then_stay() -> None:
    world = World(gang_of_three(), Writer(g_2=[refused() for _ in range(TRIES)]))
    world.run()
    assert sorted(world.were_bound) == ["g-0", "g-1", "z"]
    assert world.released == [["g-2"]]
    assert world.cluster.reserved.keys() == {"default/g-0", "default/g-1", "default/z"}


def test_a_place_is_kept_until_the_outcome_is_known() -> None:
    world = World(scenario(node("a", cpu="1"), pod("p", cpu="1")), Writer(p=[BindUnknownError("no answer")]))
    world.run()
    assert world.released == [["p"]]
    assert world.cluster.waiting.keys() == {"default/p"}


def test_one_that_leads_no_longer_keeps_only_the_places_of_bindings_that_were_sent() -> None:
    class Slow(Writer):
        async def write(self, decision: Decision, handed_over: bool = True) -> None:
            self.written.append(decision.task.name)
            if decision.task.name == "b":
                raise refused()
            await answer.wait()
            if decision.task.name == "c":
                raise refused()

    async def main() -> None:
        cycle_runner = CycleRunner(cluster, default_plugins(), make_actions())
        binds = world.binds(cycle_runner)
        binds.add(cycle_runner.run(frozenset(), 0.0).placed)
        running = asyncio.create_task(binds.run())
        while len(world.writer.written) < 3:
            await asyncio.sleep(0.01)
        assert not binds.is_idle
        binds.cease()
        # b was refused and is to be tried again, d was never sent.
        assert cluster.waiting.keys() == {"default/b", "default/d"}
        assert cluster.reserved.keys() == {"default/a", "default/c"}
        assert not binds.is_idle
        answer.set()
        await asyncio.sleep(1.0)
        assert world.writer.written == ["b", "a", "c"], "nothing is sent any more"
        assert binds.is_idle
        assert len(binds) == 0
        assert cluster.reserved.keys() == {"default/a"}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    cluster = scenario(
        node("n", cpu="4"), *(pod(name, cpu="1", priority=5 if name == "b" else 1) for name in ("a", "b", "c", "d"))
    )
    world, answer = World(cluster, Slow(), at_once=2), asyncio.Event()
    virtualtime.run(main())
    assert world.were_bound == ["a"]
    assert world.released == [["c"]]


def test_a_place_whose_outcome_is_not_known_is_neither_idle_nor_given_up() -> None:
    class Unknown(Writer):
        async def is_bound(self, task: object, goes_on: object) -> bool:
            await answer.wait()
            return True

    async def main() -> None:
        cycle_runner = CycleRunner(cluster, default_plugins(), make_actions())
        binds = world.binds(cycle_runner)
        binds.add(cycle_runner.run(frozenset(), 0.0).placed)
        running = asyncio.create_task(binds.run())
        await asyncio.sleep(0.1)
        binds.cease()
        assert not binds.is_idle
        assert cluster.reserved.keys() == {"default/p"}
        answer.set()
        await asyncio.sleep(0.1)
        assert binds.is_idle
        assert world.were_bound == ["p"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    cluster = scenario(node("a", cpu="1"), pod("p", cpu="1"))
    world, answer = World(cluster, Unknown(p=[BindUnknownError("no answer")])), asyncio.Event()
    virtualtime.run(main())


# -- device plugins that serve one pod after the other


class Handing(Writer):
    """Its pods are handed their devices by a plugin."""

    def is_handed_over(self, decision: Decision) -> bool:
        return True

    async def label(self, task: object, node: str) -> None:
        pass


def test_a_pod_whose_turn_does_not_come_within_two_seconds_is_placed_on_another_node() -> None:
    async def main() -> None:
        cycle_runner = CycleRunner(cluster, default_plugins(), make_actions())
        binds = world.binds(cycle_runner)
        binds.add(cycle_runner.run(frozenset(), 0.0).placed)
        running = asyncio.create_task(binds.run())
        await asyncio.sleep(TURN_SECONDS - 0.1)
        assert cluster.reserved.keys() == {"default/p", "default/q"}, "both keep their places on a"
        assert not world.missed
        await asyncio.sleep(0.2)
        assert world.missed == [["q"]]
        cluster.device_plugins.update(world.handovers.silent(), world.handovers.busy())
        (decision,) = cycle_runner.run(frozenset(), 0.0).placed
        assert (decision.task.name, decision.node) == ("q", "b")
        binds.add([decision])
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    cluster = scenario(node("a", gpus=2), node("b", gpus=2), *(pod(name, 1, memory=1000) for name in ("p", "q")))
    world = World(cluster, Handing())
    virtualtime.run(main())
    assert world.were_bound == ["p", "q"]
    assert not world.released


def test_a_pod_that_is_gone_when_its_turn_does_not_come_is_no_bind_any_more() -> None:
    async def main() -> None:
        cycle_runner = CycleRunner(cluster, default_plugins(), make_actions())
        binds = world.binds(cycle_runner)
        binds.add(cycle_runner.run(frozenset(), 0.0).placed)
        running = asyncio.create_task(binds.run())
        await asyncio.sleep(TURN_SECONDS / 2)
        assert len(binds) == 1, "q waits for its turn"
        cluster.remove_pod("default/q")
        await asyncio.sleep(TURN_SECONDS)
        assert len(binds) == 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    cluster = scenario(node("a", gpus=2), *(pod(name, 1, memory=1000) for name in ("p", "q")))
    world = World(cluster, Handing())
    virtualtime.run(main())
    assert world.were_bound == ["p"]
    assert not world.missed


def test_a_gang_whose_member_waits_in_vain_is_decided_about_again_as_far_as_it_is_not_bound() -> None:
    async def main() -> None:
        world.handovers.seen("default/x", other, is_gone=False)
        cycle_runner = CycleRunner(cluster, default_plugins(), make_actions())
        binds = world.binds(cycle_runner)
        binds.add(cycle_runner.run(frozenset(), 0.0).placed)
        running = asyncio.create_task(binds.run())
        await asyncio.sleep(TURN_SECONDS + 0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    cluster = scenario(node("a", gpus=2), *members("g", 3, 1, memory=1000))
    add(cluster, group("g", 3))
    other = pod("x", 1, on="a", phase="Pending", annotations={"hami.io/bind-phase": "allocating"})
    world = World(cluster, Handing())
    virtualtime.run(main())
    assert not world.were_bound
    assert world.missed == [["g-0", "g-1", "g-2"]]
    assert len(cluster.waiting) == 3
