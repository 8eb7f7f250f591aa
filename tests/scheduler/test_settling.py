"""That something of a job is still missing is told only if it stays so."""

import asyncio

import pytest

from tests import virtualtime
from tests.groups import group, members
from tests.scenario import node, pod
from tests.scheduler.podstore import PodStore, scheduling


def warnings(store: PodStore) -> list[str]:
    return [event["message"] for event in store.events if event["type"] == "Warning"]


def test_a_gang_whose_pods_come_one_after_another_is_not_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with scheduling(monkeypatch, node("n"), group("g", 8)) as (store, service):
            for one in members("g", 8, cpu=1):
                store.add(one)
                await asyncio.sleep(1.5)
            assert all(one.node == "n" for one in store.pods.values())
            assert not warnings(store)
            assert not store.reasons
            assert not service._settling

    virtualtime.run(main())


def test_a_gang_that_stays_short_of_pods_says_so_however_much_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with scheduling(monkeypatch, node("n", cpu="4"), group("g", 3)) as (store, _):
            store.add(*members("g", 2, cpu=1))
            for number in range(10):
                store.add(pod(f"p{number}", cpu=1))
                await asyncio.sleep(0.25)
                store.remove(f"default/p{number}")
            await asyncio.sleep(1)
            assert store.reasons == {"default/g-0": ["Unschedulable"], "default/g-1": ["Unschedulable"]}
            assert len(warnings(store)) == 2
            assert all("NotEnoughPods" in text for text in warnings(store))

    virtualtime.run(main())


def test_what_is_wrong_with_a_pod_itself_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with scheduling(monkeypatch, node("n", cpu="1")) as (store, _):
            store.add(pod("p", cpu=2))
            await asyncio.sleep(0.2)
            assert len(warnings(store)) == 1

    virtualtime.run(main())


def test_a_stopped_pod_and_its_group_are_told_as_volcano_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        low = members("low", 1, cpu=1, on="n")
        async with scheduling(monkeypatch, node("n", cpu="1"), group("low", 1, phase="Running"), *low) as (store, _):
            store.add(pod("high", cpu=1, priority=10))
            await asyncio.sleep(1)
            told = [event for event in store.events if event["reason"] == "Evict"]
            assert {event["involvedObject"]["kind"] for event in told} == {"Pod", "PodGroup"}
            assert {event["message"] for event in told} == {"Pod is evicted, because of default/high has priority 10"}

    virtualtime.run(main())
