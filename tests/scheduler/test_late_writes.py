"""Writes that a slow API server carries out after later ones: the statuses of pods come right all the same."""

import asyncio
from typing import Any

import pytest

from tests import virtualtime
from tests.scenario import node, pod
from tests.scheduler.podstore import PodStore, scheduling

LATE = 25.0
"""Longer than the scheduler waits for an answer."""


def late_once(store: PodStore, wanted: str) -> None:
    """The first status write with this in it is late."""
    seen: list[str] = []

    def late(path: str, body: Any) -> float:
        if path.endswith("/status") and wanted in str(body) and not seen:
            seen.append(path)
            return LATE
        return 0.0

    store.late = late


def test_a_bound_pod_does_not_say_why_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [node("a", cpu="1"), pod("first", cpu="1", on="a"), pod("second", cpu="1")]
        async with scheduling(monkeypatch, *things, actions=["allocate"]) as (store, _):
            late_once(store, "Unschedulable")
            await asyncio.sleep(1.0)
            store.remove("default/first")
            await asyncio.sleep(1.0)
            assert store.pods["default/second"].node == "a"
            assert not store.pods["default/second"].status.says_unscheduled
            await asyncio.sleep(LATE + 5.0)
            assert store.reasons["default/second"], "the late write came true"
            assert not store.pods["default/second"].status.says_unscheduled

    virtualtime.run(main())


def test_a_scheduler_that_comes_to_lead_sets_right_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The late write came true while nobody led."""

    async def main() -> None:
        async with scheduling(monkeypatch, node("a", cpu="1"), pod("p", cpu="1", on="a")) as (store, service):
            service.leadership.leading.clear()
            store._apply("/api/v1/namespaces/default/pods/p/status", UNSCHEDULABLE)
            await asyncio.sleep(5.0)
            assert store.pods["default/p"].status.says_unscheduled
            service.leadership.leading.set()
            service._begin()
            await asyncio.sleep(1.0)
            assert not store.pods["default/p"].status.says_unscheduled

    virtualtime.run(main())


UNSCHEDULABLE = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}


@pytest.mark.parametrize("first", ["'nominatedNodeName': 'a'", "'nominatedNodeName': None"])
def test_a_pod_that_is_not_nominated_keeps_no_nominated_node(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """Whichever write is late: the one that names the node, or the one that clears it."""

    async def main() -> None:
        things = [node("a", cpu="1"), pod("low", cpu="1", on="a"), pod("high", cpu="1", priority=50)]
        async with scheduling(monkeypatch, *things) as (store, service):
            late_once(store, first)
            await asyncio.sleep(0.05)
            store.remove("default/low")
            # Another pod takes the room, and stays.
            store.add(pod("other", cpu="1", on="a", priority=100))
            await asyncio.sleep(3 * LATE)
            assert store.pods["default/high"].node is None
            assert not store.pods["default/high"].status.nominatedNodeName
            assert not service.cluster.reserved

    virtualtime.run(main())
