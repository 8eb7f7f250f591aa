"""Pods whose group a controller makes afterwards are held for a short while, and gangs do not start in pieces."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import virtualtime
from tests.groups import group, kai_group
from tests.scenario import node, pod
from tests.scheduler.podstore import PodStore, scheduling
from tonnage.cluster.jobs.grouping import expected_group
from tonnage.model.group import KaiPodGroup, VolcanoPodGroup
from tonnage.model.meta import OwnerReference
from tonnage.model.pod import Pod, SchedulingGate
from tonnage.scheduler import service as module

VOLCANO, KAI = "volcano", "kai-scheduler"
NOTES = {VOLCANO: "scheduling.k8s.io/group-name", KAI: "pod-group-name"}
DEFINED = {VOLCANO: VolcanoPodGroup, KAI: KaiPodGroup}


def owned(name: str, scheduler: str = VOLCANO, kind: str = "ReplicaSet", of: str | None = "web", **more: Any) -> Pod:
    made = pod(name, **{"cpu": "1", **more})
    owners = [OwnerReference(of, controller=True, kind=kind)] if of else None
    metadata = msgspec.structs.replace(made.metadata, uid=f"uid-{name}", ownerReferences=owners)
    return msgspec.structs.replace(
        made, metadata=metadata, spec=msgspec.structs.replace(made.spec, schedulerName=scheduler)
    )


def named(made: Pod, of: str) -> Pod:
    """A pod as it is once the controller has put it into a group."""
    notes = {**made.annotations, NOTES[made.spec.schedulerName or ""]: of}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=notes))


def running(store: PodStore) -> set[str]:
    return {one.metadata.name for one in store.pods.values() if one.node is not None}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (owned("p"), VolcanoPodGroup),
        (owned("p", kind="StatefulSet"), VolcanoPodGroup),
        (owned("p", kind="Job"), VolcanoPodGroup),
        (owned("p", kind="DaemonSet"), VolcanoPodGroup),
        (owned("p", kind="PyTorchJob"), None),
        (owned("p", of=None), None),
        (named(owned("p"), "g"), None),
        (owned("p", labels={"scheduling.x-k8s.io/pod-group": "g"}), None),
        (owned("p", annotations={"tonnage.io/min-members": "2"}), None),
        (owned("p", scheduler="tonnage"), None),
        (owned("p", scheduler="tonnage", labels={"kai.scheduler/queue": "q"}), None),
        (owned("p", scheduler="tonnage", annotations={"scheduling.volcano.sh/group-min-member": "3"}), VolcanoPodGroup),
        (owned("p", scheduler=KAI, kind="PyTorchJob"), KaiPodGroup),
        (owned("p", scheduler=KAI, kind="Job"), KaiPodGroup),
        (owned("p", scheduler=KAI, of=None), None),
        (named(owned("p", scheduler=KAI), "g"), None),
    ],
)
def test_which_signs_count(made: Pod, expected: type[Any] | None) -> None:
    found = expected_group(made)
    assert (found.kind if found is not None else None) is expected


def test_a_pod_with_a_sign_says_why_it_waits_and_starts_alone_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with scheduling(monkeypatch, node("n"), name=VOLCANO, installed=[VolcanoPodGroup]) as (store, service):
            store.add(owned("p"))
            await asyncio.sleep(4.9)
            assert not running(store)
            (decision,) = service.cycle_runner.run(frozenset(), 0.0).waiting
            assert decision.why_not() == (
                "GroupExpected: Volcano's controllers make a PodGroup for ReplicaSet web; the pod waits up to 5s for it"
            )
            await asyncio.sleep(0.2)
            assert running(store) == {"p"}
            assert not service.cluster.groups.expected

    virtualtime.run(main())


@pytest.mark.parametrize(
    ("made", "scheduler", "installed"),
    [
        (owned("p"), VOLCANO, ()),
        (owned("p", scheduler=KAI), KAI, (VolcanoPodGroup,)),
        (owned("p", of=None), VOLCANO, (VolcanoPodGroup, KaiPodGroup)),
        (owned("p", scheduler="tonnage"), "tonnage", (VolcanoPodGroup, KaiPodGroup)),
    ],
)
def test_a_pod_without_a_sign_is_not_delayed(
    monkeypatch: pytest.MonkeyPatch, made: Pod, scheduler: str, installed: tuple[type[Any], ...]
) -> None:
    async def main() -> None:
        async with scheduling(monkeypatch, node("n"), name=scheduler, installed=installed) as (store, _):
            store.add(made)
            await asyncio.sleep(0.01)
            assert running(store) == {"p"}

    virtualtime.run(main())


def test_what_was_seen_before_all_kinds_were_listed_is_held_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = node("n", cpu="1"), owned("p"), owned("q")
        async with scheduling(monkeypatch, *things, name=VOLCANO, installed=[VolcanoPodGroup]) as (store, _):
            await asyncio.sleep(1)
            assert not running(store)
            store.add(group("g", 2), named(owned("p"), "g"), named(owned("q"), "g"))
            await asyncio.sleep(60)
            assert not running(store), "the gang does not fit"

    virtualtime.run(main())


def test_a_group_that_comes_too_late_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with scheduling(monkeypatch, node("n"), name=KAI, installed=[KaiPodGroup]) as (store, service):
            store.add(owned("p", scheduler=KAI, kind="PyTorchJob"))
            await asyncio.sleep(6)
            store.add(kai_group("g", 2), named(store.pods["default/p"], "g"))
            await asyncio.sleep(1)
            late = [event for event in store.events if event["reason"] == "GroupCameLate"]
            assert [event["message"] for event in late] == [
                "It was placed without its gang: 5s were not enough for its PodGroup to be made"
            ]
            assert late[0]["type"] == "Warning"
            store.add(msgspec.structs.replace(store.pods["default/p"]))
            await asyncio.sleep(1)
            assert service._metrics.groups_late._value.get() == 1

    virtualtime.run(main())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scheduler=st.sampled_from((VOLCANO, KAI)),
    minimum=st.integers(2, 4),
    cpus=st.integers(1, 4),
    order=st.permutations(range(9)),
    pauses=st.lists(st.floats(0, 0.6), min_size=9, max_size=9),
    gated=st.booleans(),
)
def test_no_gang_whose_group_comes_in_time_starts_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
    scheduler: str,
    minimum: int,
    cpus: int,
    order: list[int],
    pauses: list[float],
    gated: bool,
) -> None:
    """Four pods, their annotations and their group come in any order that is possible, within 5 s in all."""
    monkeypatch.setattr(module, "gc", SimpleNamespace(collect=lambda: 0, freeze=lambda: None))
    pods = [owned(f"p{number}", scheduler=scheduler, kind="Job") for number in range(4)]
    made = kai_group("g", minimum) if scheduler == KAI else group("g", minimum, phase="Pending")

    def happens(store: PodStore, number: int) -> None:
        if number == 8:
            store.add(made)
            return
        one = pods[number % 4]
        known = store.pods.get(one.key)
        if known is None:
            gates = [SchedulingGate("hold")] if gated and number % 2 else None
            spec = msgspec.structs.replace(one.spec, schedulingGates=gates)
            store.add(msgspec.structs.replace(one, spec=spec))
        elif known.node is None:
            # Its controller puts it into the group, and whoever gated it lets it go.
            store.add(named(one, "g"))
        else:
            pytest.fail(f"{one.key} was placed before it was put into its group")

    async def main() -> None:
        installed = [DEFINED[scheduler]]
        things = [node("n", cpu=str(cpus))]
        async with scheduling(monkeypatch, *things, name=scheduler, installed=installed) as (store, _):
            for number, pause in zip(order, pauses, strict=True):
                happens(store, number)
                await asyncio.sleep(pause)
                assert not running(store) or len(running(store)) >= minimum
            await asyncio.sleep(30)
            assert len(running(store)) == (min(cpus, 4) if cpus >= minimum else 0)

    virtualtime.run(main())
