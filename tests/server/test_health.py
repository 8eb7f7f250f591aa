"""Probes: alive while the loop and the lease thread go on, ready while the picture of the cluster is fresh."""

import asyncio
from types import SimpleNamespace

import pytest

from tonnage.model.duration import format_seconds
from tonnage.server.health import LATE_SECONDS, SILENT_SECONDS, STALE_SECONDS, Health


class World:
    def __init__(self, alive=(), notes=dict, **kinds):
        self.now = 1000.0
        self.ready = asyncio.Event()
        self.ready.set()
        self.kinds = {
            kind: SimpleNamespace(heard=self.now - age, trouble=trouble, lists=1, is_missing=False)
            for kind, (age, trouble) in kinds.items()
        }
        self.health = Health(self.ready, self.kinds, alive, notes, lambda: self.now)

    def probe(self, which):
        answer = asyncio.run(getattr(self.health, which)(None))
        return answer.status_code, answer.body.decode()


def test_before_the_first_sync_it_lives_and_is_not_ready():
    world = World(Pod=(0, ""))
    world.ready.clear()
    assert world.probe("livez") == (200, "ok")
    assert world.probe("readyz") == (503, "the informer has not synced yet")


def test_a_fresh_picture_is_ready_and_a_silent_watch_is_not():
    world = World(Pod=(5, ""), Node=(30, ""))
    assert world.probe("readyz") == (200, "ok")
    world.now += SILENT_SECONDS - 10
    status, said = world.probe("readyz")
    assert status == 503
    assert said == f"Node: nothing was heard from the API server for {format_seconds(SILENT_SECONDS + 20)}"


def test_a_broken_watch_is_forgiven_for_a_minute_only_and_the_body_says_why():
    world = World(Pod=(0, "connection refused"), Node=(0, ""))
    assert world.probe("readyz") == (200, "ok\nPod: connection refused")
    world.now += STALE_SECONDS + 1
    assert world.probe("readyz") == (503, "Pod: nothing was heard from the API server for 1m1s: connection refused")
    world.kinds["Pod"].heard, world.kinds["Pod"].trouble = world.now, ""
    assert world.probe("readyz") == (200, "ok")


@pytest.mark.parametrize("change", [{"lists": 0}, {"is_missing": True}])
def test_kinds_that_are_not_installed_or_may_not_be_listed_do_not_count(change):
    world = World(Pod=(0, ""), Queue=(10_000, "may not list queues"))
    world.kinds["Queue"].__dict__.update(change)
    assert world.probe("readyz")[0] == 200


def test_it_does_not_live_when_a_check_says_so_and_other_troubles_are_notes():
    trouble = []
    world = World(alive=[lambda: "".join(trouble)], notes=lambda: {"Lease": "cannot be read"}, Pod=(0, ""))
    assert world.probe("livez") == (200, "ok")
    assert world.probe("readyz") == (200, "ok\nLease: cannot be read")
    trouble.append("the thread that renews the lease stands")
    assert world.probe("livez") == (503, "the thread that renews the lease stands")
    assert world.probe("readyz")[0] == 200


def test_it_does_not_live_when_the_loop_does_not_get_to_its_timers():
    world = World()

    async def scene():
        beating = asyncio.create_task(world.health.run())
        await asyncio.sleep(0)
        beating.cancel()

    asyncio.run(scene())
    world.now += LATE_SECONDS
    assert world.probe("livez") == (200, "ok")
    world.now += 1
    assert world.probe("livez") == (503, "the event loop is 31s late")
