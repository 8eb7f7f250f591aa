"""A pod that waits for its volumes: what ends the wait, and what is written meanwhile."""

import asyncio

import pytest

from tests import virtualtime
from tests.binder.volumestore import CLAIM, VOLUME, VolumeStore
from tests.neighbours import labelled, zoned
from tests.scenario import scenario
from tests.storage import claim, local_class, storage_class, volume
from tonnage.binder.binding import BindError
from tonnage.binder.volumes import VolumeBinder
from tonnage.binder.volumewriter import VolumeWriter
from tonnage.framework.session import Session
from tonnage.kube.kinds import PODS, WATCHED
from tonnage.kube.resource import Change
from tonnage.model.storage import SELECTED_NODE
from tonnage.plugins.defaults import default_plugins

MOMENT = 1.0


class World:
    """The pod `p` with the claim `c`, decided for node `a1`, and a binder with an API server in memory."""

    def __init__(self, *things):
        self.cluster = scenario(zoned("a1", "a"), labelled("p", claims=["c"]))
        for thing in things:
            self.cluster.upsert_surrounding(thing)
        with Session(self.cluster, default_plugins()) as session:
            self.decision = session.place(self.cluster.waiting["default/p"])
        assert self.decision.node == "a1"
        self.store = VolumeStore()
        self.binder = VolumeBinder(VolumeWriter(self.store), self.cluster, seconds=60.0)
        self.told = []

    def stands(self):
        return "default/p" in self.cluster.reserved

    def show(self, thing):
        """The watch shows a claim or a volume."""
        self.cluster.upsert_surrounding(thing)
        self.binder.seen(WATCHED[type(thing)], [Change(thing.metadata.key, thing)])

    async def begin(self):
        task = asyncio.create_task(self.binder.bind(self.decision, self.stands, self.told.append))
        await asyncio.sleep(MOMENT)
        return task


def dynamic():
    return World(storage_class(), claim("c", None, "fast", uid="u1"))


def played(world, scene):
    async def main():
        await scene(await world.begin())
        assert world.binder.waiting == 0

    virtualtime.run(main())


def test_the_wait_ends_when_the_watch_shows_the_claim_bound_to_a_volume_that_the_node_reaches():
    world = dynamic()

    async def scene(task):
        assert world.store.objects[CLAIM]["metadata"]["annotations"] == {SELECTED_NODE: "a1"}
        world.show(volume("pv", "fast", owner="c", zone="a"))
        world.show(claim("c", "pv", "fast", uid="u1", told="a1", phase="Pending"))
        await asyncio.sleep(MOMENT)
        assert not task.done(), "the claim is not bound yet"
        world.show(claim("c", "pv", "fast", uid="u1", told="a1"))
        await task
        assert len(world.store.writes) == 1

    played(world, scene)


def test_a_volume_that_the_node_does_not_reach_is_an_error():
    world = dynamic()

    async def scene(task):
        world.show(volume("pv", "fast", owner="c", zone="b"))
        world.show(claim("c", "pv", "fast", uid="u1"))
        with pytest.raises(BindError, match="has got pv, which a1 does not reach"):
            await task

    played(world, scene)


def test_a_write_that_met_a_conflict_is_tried_again():
    world = dynamic()
    world.store.between = lambda: world.store.put(CLAIM, {"metadata": {"labels": {"team": "a"}}})

    async def scene(task):
        assert world.store.writes == []
        await asyncio.sleep(10.0)
        assert world.store.writes == [{"metadata": {"annotations": {SELECTED_NODE: "a1"}}}]
        assert "claim default/c waits for a new volume of class fast" in world.told[0]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    played(world, scene)


def test_a_provisioner_that_gives_the_node_up_ends_the_wait():
    world = dynamic()

    async def scene(task):
        world.show(claim("c", None, "fast", uid="u1"))
        await asyncio.sleep(MOMENT)
        assert not task.done(), "the watch is behind what was written"
        world.show(claim("c", None, "fast", uid="u1", told="a1"))
        await asyncio.sleep(MOMENT)
        assert not task.done()
        world.show(claim("c", None, "fast", uid="u1"))
        with pytest.raises(BindError, match="its provisioner has given a1 up") as raised:
            await task
        assert raised.value.lasting
        assert len(world.store.writes) == 1, "the next decision tells the claim its node"

    played(world, scene)


def test_a_pod_that_goes_while_it_waits_ends_the_wait_without_an_error():
    world = dynamic()

    async def scene(task):
        world.cluster.remove_pod("default/p")
        world.binder.seen(PODS, [Change("default/p", labelled("p"), is_gone=True)])
        await asyncio.wait_for(task, MOMENT)
        assert len(world.store.writes) == 1

    played(world, scene)


def test_a_claim_that_goes_ends_the_wait():
    world = dynamic()

    async def scene(task):
        world.show(claim("c", None, "fast", uid="u1", told="a1", leaving=True))
        with pytest.raises(BindError, match="is gone or is being deleted"):
            await task

    played(world, scene)


def test_a_free_volume_that_another_claim_gets_first_ends_the_wait():
    world = World(local_class(), claim("c", None, "local", uid="u1"), volume("pv", "local", zone="a"))

    async def scene(task):
        assert world.store.objects[VOLUME]["spec"]["claimRef"]["uid"] == "u1"
        world.show(volume("pv", "local", zone="a", owner="d"))
        with pytest.raises(BindError, match="cannot get pv, which is gone or has another claim"):
            await task

    played(world, scene)


def test_volumes_that_do_not_come_in_time_are_an_error_that_says_what_is_missing():
    world = dynamic()

    async def scene(task):
        with pytest.raises(BindError, match="waits for a new volume of class fast, and 1m have passed"):
            await task

    played(world, scene)
