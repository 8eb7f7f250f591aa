"""Nobody is stopped for room that another scheduler's pending pod would take."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests import virtualtime
from tests.groups import group, members
from tests.scenario import node, pod
from tests.scheduler.podstore import START, PodStore, scheduling
from tonnage.model.pod import Pod, SchedulingGate
from tonnage.model.timestamp import rfc3339

OTHER = "another-scheduler"


def stopped(store: PodStore) -> set[str]:
    """Pods that the scheduler has stopped."""
    return {event["involvedObject"]["name"] for event in store.events if event["reason"] == "Preempted"}


def after(monkeypatch: pytest.MonkeyPatch, *theirs: Pod, seconds: float = 3.0, **more: Any) -> tuple[set[str], str]:
    """Whom an urgent pod stops on a node that is full, and what it says."""
    found: list[tuple[set[str], str]] = []

    async def main() -> None:
        low = [pod(f"low{number}", cpu=2, on="n") for number in range(2)]
        async with scheduling(monkeypatch, node("n", cpu="4"), *low, *theirs, **more) as (store, _):
            store.add(pod("high", cpu=2, priority=10))
            await asyncio.sleep(seconds)
            told = [e["message"] for e in store.events if e["involvedObject"]["name"] == "high"]
            found.append((stopped(store), told[-1] if told else ""))

    virtualtime.run(main())
    return found[0]


def test_nobody_goes_for_room_that_another_scheduler_would_give_away(monkeypatch: pytest.MonkeyPatch) -> None:
    victims, told = after(monkeypatch, pod("theirs", cpu=1, scheduler=OTHER))
    assert victims == set()
    assert told == (
        "RoomContested: default/theirs of another-scheduler would take the room that others leave; "
        "it is looked at again soon"
    )


@pytest.mark.parametrize(
    "theirs",
    [
        pod("large", cpu=3, scheduler=OTHER),
        pod("elsewhere", cpu=1, scheduler=OTHER, selector={"zone": "b"}),
        pod("nothing", scheduler=OTHER),
        pod("old", cpu=1, scheduler=OTHER, created=rfc3339(START - 61)),
        pod("bound", cpu=0, on="n", scheduler=OTHER),
    ],
)
def test_a_pod_that_would_not_take_it_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, theirs: Pod) -> None:
    victims, _ = after(monkeypatch, theirs)
    assert len(victims) == 1


def test_a_gated_pod_is_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pod("theirs", cpu=1, scheduler=OTHER)
    spec = msgspec.structs.replace(theirs.spec, schedulingGates=[SchedulingGate("hold")])
    victims, _ = after(monkeypatch, msgspec.structs.replace(theirs, spec=spec))
    assert len(victims) == 1


def test_once_the_pod_has_its_place_or_is_too_old_room_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pod("theirs", cpu=1, scheduler=OTHER, created=rfc3339(START))
    assert after(monkeypatch, theirs, seconds=50)[0] == set()
    assert len(after(monkeypatch, theirs, seconds=70)[0]) == 1

    async def main() -> None:
        low = [pod(f"low{number}", cpu=2, on="n") for number in range(2)]
        async with scheduling(monkeypatch, node("n", cpu="4"), *low, theirs) as (store, _):
            store.add(pod("high", cpu=2, priority=10))
            await asyncio.sleep(1)
            store.remove("default/theirs")
            await asyncio.sleep(10)
            assert len(stopped(store)) == 1

    virtualtime.run(main())


def test_a_tenant_that_goes_on_creating_such_pods_delays_others_for_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        low = [pod(f"low{number}", cpu=2, on="n") for number in range(2)]
        async with scheduling(monkeypatch, node("n", cpu="4"), *low) as (store, _):
            store.add(pod("theirs", cpu=1, scheduler=OTHER, created=rfc3339(START)))
            store.add(pod("high", cpu=2, priority=10))
            for second in range(1, 50):
                await asyncio.sleep(1)
                store.add(pod(f"theirs{second}", cpu=1, scheduler=OTHER, created=rfc3339(START + second)))
            assert stopped(store) == set()
            await asyncio.sleep(20)
            assert len(stopped(store)) == 1

    virtualtime.run(main())


def test_a_gang_finds_other_victims_where_the_room_is_not_contested(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [
            node("m", cpu="2", labels={"zone": "a"}),
            node("n", cpu="2", labels={"zone": "b"}),
            pod("on-m", cpu=2, on="m"),
            pod("on-n", cpu=2, on="n"),
            pod("theirs", cpu=1, scheduler=OTHER, selector={"zone": "a"}),
            group("high", 1, priorityClassName="system-node-critical", namespace="kube-system"),
        ]
        async with scheduling(monkeypatch, *things) as (store, _):
            store.add(*members("high", 1, cpu=2, namespace="kube-system", priority=100))
            await asyncio.sleep(20)
            assert stopped(store) == {"on-n"}

    virtualtime.run(main())
