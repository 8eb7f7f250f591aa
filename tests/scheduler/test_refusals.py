"""A bind that a kubelet refuses is noticed, and not repeated while nothing has changed on the node."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests import virtualtime
from tests.scenario import node, pod
from tests.scheduler.podstore import PodStore, scheduling
from tonnage.cluster.closures.refusals import is_refusal
from tonnage.model.pod import Pod
from tonnage.scheduler.service import SchedulerService

Scene = Callable[[PodStore, SchedulerService], Awaitable[None]]


def play(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    """On one node, where a pod was bound and then refused."""

    async def main() -> None:
        async with scheduling(monkeypatch, node("n", cpu="4"), actions=("allocate",)) as (store, service):
            store.add(named("first"))
            await asyncio.sleep(1)
            refuse(store, "first")
            await scene(store, service)

    virtualtime.run(main())


def named(name: str, cpu: int = 1) -> Pod:
    made = pod(name, cpu=cpu)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=f"uid-{name}"))


def refuse(store: PodStore, name: str, reason: str = "OutOfcpu") -> None:
    """The kubelet does not admit a pod that was bound."""
    bound = store.pods[f"default/{name}"]
    assert bound.node == "n"
    store.add(
        msgspec.structs.replace(bound, status=msgspec.structs.replace(bound.status, phase="Failed", reason=reason))
    )


def where(store: PodStore) -> dict[str, str | None]:
    return {one.metadata.name: one.node for one in store.pods.values() if not one.is_over}


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("OutOfcpu", True),
        ("OutOfnvidia.com/gpu", True),
        ("UnexpectedAdmissionError", True),
        ("NodeAffinity", True),
        ("Evicted", False),
        ("NodeLost", False),
        (None, False),
    ],
)
def test_which_failures_are_refusals(reason: str | None, expected: bool) -> None:
    assert is_refusal(reason) == expected


def test_the_next_such_pod_waits_or_goes_elsewhere_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(store: PodStore, service: SchedulerService) -> None:
        store.add(named("second"), named("larger", cpu=2))
        await asyncio.sleep(60)
        assert where(store) == {"second": None, "larger": "n"}
        told = [event["message"] for event in store.events if event["reason"] == "FailedScheduling"]
        assert told == [
            "0 of 1 nodes fit: 1 RefusedByKubelet "
            "(n: its kubelet refused default/first (OutOfcpu), which asked for the same)"
        ]
        assert service.cluster.refusals.counts == {"OutOfcpu": 1}
        assert [str(problem) for problem in service.cluster.problems()] == [
            "Node/n: its kubelet refused default/first (OutOfcpu); such pods go elsewhere until something changes there"
        ]
        store.add(node("m", cpu="1"))
        await asyncio.sleep(1)
        assert where(store)["second"] == "m"

    play(monkeypatch, scene)


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "NodeAffinity", "NodePorts"])
def test_a_refusal_that_the_pod_itself_may_have_caused_keeps_no_other_pod_off_the_node(
    monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Else a tenant whose pods are refused on every node would keep all others of that size off them."""

    async def main() -> None:
        async with scheduling(monkeypatch, node("n", cpu="4"), actions=("allocate",)) as (store, service):
            store.add(named("first"))
            await asyncio.sleep(1)
            refuse(store, "first", reason)
            store.add(named("second"))
            await asyncio.sleep(1)
            assert where(store) == {"second": "n"}
            assert service.cluster.refusals.counts == {reason: 1}

    virtualtime.run(main())


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.add(node("n", cpu="5")),
        lambda store: store.add(pod("other", cpu=1, on="n", scheduler="another")),
        lambda store: store.remove("default/old"),
    ],
)
def test_it_is_tried_again_when_something_on_the_node_has_changed(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[PodStore], None]
) -> None:
    async def scene(store: PodStore, service: SchedulerService) -> None:
        store.add(pod("old", cpu=1, on="n", scheduler="another"))
        store.add(named("again"))
        await asyncio.sleep(1)
        refuse(store, "again")
        store.add(named("second"))
        await asyncio.sleep(60)
        assert where(store)["second"] is None
        change(store)
        await asyncio.sleep(1)
        assert where(store)["second"] == "n"
        assert not service.cluster.refusals

    play(monkeypatch, scene)


def test_a_heartbeat_or_a_pod_on_another_node_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(store: PodStore, service: SchedulerService) -> None:
        store.add(named("second"), node("full", cpu="0"))
        store.add(node("n", cpu="4"), pod("other", cpu=1, on="full", scheduler="another"))
        await asyncio.sleep(60)
        assert where(store)["second"] is None

    play(monkeypatch, scene)


def test_a_pod_that_was_not_placed_here_tells_nothing_about_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names a node in a pod of their own keeps nobody off it."""

    async def main() -> None:
        async with scheduling(monkeypatch, node("n", cpu="4"), actions=("allocate",)) as (store, service):
            store.add(pod("mine", cpu=1, on="n"))
            refuse(store, "mine", "UnexpectedAdmissionError")
            store.add(named("theirs"))
            await asyncio.sleep(1)
            assert where(store) == {"theirs": "n"}
            assert not service.cluster.refusals.counts

    virtualtime.run(main())


def test_a_pod_that_is_first_seen_with_its_node_when_it_has_failed_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list shows the bind and the refusal at once."""

    async def main() -> None:
        async with scheduling(monkeypatch, node("n", cpu="4"), actions=("allocate",)) as (store, service):
            store.late = lambda path, body: 1000.0 if path.endswith("/binding") else 0.0
            store.add(named("first"))
            await asyncio.sleep(0.1)
            assert "default/first" in service.cluster.reserved
            failed = named("first")
            spec = msgspec.structs.replace(failed.spec, nodeName="n")
            status = msgspec.structs.replace(failed.status, phase="Failed", reason="OutOfmemory")
            store.add(msgspec.structs.replace(failed, spec=spec, status=status))
            assert service.cluster.refusals.counts == {"OutOfmemory": 1}

    virtualtime.run(main())
