"""Pods whose claims wait for them are bound once their volumes are; gangs wait, and give up, as a whole."""

import asyncio

import msgspec

from tests import virtualtime
from tests.groups import add, group
from tests.neighbours import labelled, zoned
from tests.scenario import scenario
from tests.scheduler.binding import World, Writer
from tests.storage import claim, storage_class, volume
from tonnage.actions.catalog import make_actions
from tonnage.cluster.jobs.group import VOLCANO_GROUP
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.cyclerunner import CycleRunner


class Told:
    """Remembers what claims were told."""

    def __init__(self):
        self.nodes = {}

    async def select_node(self, claim, node):
        self.nodes[claim.key] = node
        return True


def member(name, *claims):
    made = labelled(name, claims=claims)
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, annotations={VOLCANO_GROUP: "g"})
    )


def world_of(*pods):
    cluster = scenario(zoned("a1", "a"), *pods)
    for thing in (storage_class(), claim("c", None, "fast")):
        cluster.upsert_surrounding(thing)
    add(cluster, group("g", 2))
    world = World(cluster, Writer())
    world.volume_writer = Told()
    return world


def run(world, steps):
    async def main():
        runner = CycleRunner(world.cluster, default_plugins(), make_actions())
        binds = world.binds(runner)
        binds.add(runner.run(frozenset(), 0.0).placed)
        running = asyncio.create_task(binds.run())
        await asyncio.sleep(20.0)
        await steps(binds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    virtualtime.run(main())


def test_a_gang_waits_for_its_volume_while_others_are_bound():
    world = world_of(member("g-0", "c"), member("g-1"), labelled("z"))

    async def steps(binds):
        assert world.were_bound == ["z"]
        assert world.volume_writer.nodes == {"default/c": "a1"}
        world.cluster.upsert_surrounding(volume("pv", "fast", owner="c"))
        world.cluster.upsert_surrounding(claim("c", "pv", "fast"))
        await asyncio.sleep(20.0)
        assert sorted(world.were_bound) == ["g-0", "g-1", "z"]

    run(world, steps)


def test_a_volume_that_does_not_come_frees_the_places_of_the_whole_gang():
    world = world_of(member("g-0", "c"), member("g-1"))

    async def steps(binds):
        await asyncio.sleep(700.0)
        assert world.were_bound == []
        assert world.released == [["g-0", "g-1"]]
        assert not world.cluster.volumes
        assert len(binds) == 0

    run(world, steps)


def test_the_places_of_a_gang_are_free_when_the_pod_that_waits_goes():
    world = world_of(member("g-0", "c"), member("g-1"))

    async def steps(binds):
        world.cluster.remove_pod("default/g-0")
        await asyncio.sleep(20.0)
        assert world.released == [["g-1"]]
        assert len(binds) == 0

    run(world, steps)
