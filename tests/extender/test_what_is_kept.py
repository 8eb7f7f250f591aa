"""Pods and nodes that came and went leave nothing behind in a running extender."""

import asyncio
import gc
import logging
import random

import pytest

from tests.extender.inmemory import NODES, Whole, sizes
from tests.scenario import node, pod
from tonnage.cluster import columns
from tonnage.observability import events

BOUNDED = {
    "events._warnings": events.MOST_QUEUED,
    "events._others": events.MOST_QUEUED,
    "_columns._touched": columns._MOST_TOUCHED,
}
"""Containers that may fill up to a limit; memos, which start afresh when they are full, are not looked at."""


NOISE = 9
"""Entries that a container may have more or less at any moment; 20 nodes and 300 pods come and go."""


async def come_and_go(whole: Whole, number: int, pods: int) -> None:
    """Pods, of which some find no room, fail on their node or go at once, and nodes."""
    api, rng, there = whole.api, random.Random(number), list[str]()
    fleeting = [f"fleeting-{number}-{count}" for count in range(10)]
    for name in fleeting:
        labels = {"kubernetes.io/hostname": name}
        api.put(node(name, gpus=2, labels=labels, annotations={"hami.io/node-handshake": "Reported"}))
    names = ["a", "b", *fleeting]
    for count in range(pods):
        name = f"p-{number}-{count}"
        api.put(pod(name, 1, memory=rng.choice((1000, 2000, 3000)), cores=5, labels={"app": name}))
        there.append(name)
        fate = rng.random()
        if fate > 0.1:
            await asyncio.sleep(0)
        on = await whole.schedule(name, names)
        if on and fate > 0.2:
            phase = "failed" if fate > 0.95 else "success"
            path = f"/api/v1/namespaces/default/pods/{name}"
            api.change(path, {"metadata": {"annotations": {"hami.io/bind-phase": phase}}})
            await asyncio.sleep(0)
            api.change(path, {"status": {"phase": "Failed" if phase == "failed" else "Running"}})
        elif on:
            there.remove(name)
            api.delete(name)
        while len(there) > 40:
            api.delete(there.pop(rng.randrange(len(there))))
        await asyncio.sleep(0)
    for name in there:
        api.delete(name)
    for name in fleeting:
        api.delete(name, NODES)
    # A beat goes by, in which places and those who waited are looked at.
    await asyncio.sleep(1.3)
    gc.collect()


@pytest.fixture
def quiet():
    logging.getLogger("tonnage").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("tonnage").setLevel(logging.NOTSET)


def test_whatever_came_and_went_leaves_nothing_behind(quiet):
    async def main():
        whole = Whole()
        for name in ("a", "b"):
            whole.api.put(node(name, gpus=2, annotations={"hami.io/node-handshake": "Reported"}))
        async with whole.running():
            await come_and_go(whole, 0, 150)
            before = sizes(whole.parts)
            for number in (1, 2):
                await come_and_go(whole, number, 150)
            return before, sizes(whole.parts)

    before, after = asyncio.run(main())
    assert len(before) > 100
    grown = {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0) + NOISE}
    limits = {path: next((most for end, most in BOUNDED.items() if end in path), 0) for path in grown}
    assert {path: grown[path] for path, most in limits.items() if not most} == {}
    assert all(grown[path][1] <= most for path, most in limits.items() if path.endswith(tuple(BOUNDED)))
