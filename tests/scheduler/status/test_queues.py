"""What the status of Queues says, and how often it is written."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from tests import virtualtime
from tests.groups import add, group, kai_group, kai_queue, members, queue
from tests.scenario import node, part, plain, pod, scenario
from tests.scheduler.watching import leads
from tonnage.cluster.cluster import Cluster
from tonnage.kube.errors import ConnectionLostError
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import BATCH_KINDS, KAI_QUEUES, NODES, PODS, VOLCANO_QUEUES, WATCHED, WatchedKind
from tonnage.kube.resource import Change
from tonnage.kube.watch import Backoff
from tonnage.model.group import KaiQueue, VolcanoPodGroup, VolcanoQueue
from tonnage.model.pod import Container, ResourceRequirements
from tonnage.model.wire import convert
from tonnage.scheduler.status import queues
from tonnage.scheduler.status.queues import QueueStatuses

VOLCANO_GROUPS = WATCHED[VolcanoPodGroup]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "SETTLING", 0.001)


class World:
    def __init__(self, cluster: Cluster, *planned: Exception, every: float = 0.01) -> None:
        self.cluster = cluster
        self.pods = 0
        self.planned = list(planned)
        self.written: list[tuple[str, Any]] = []
        self.podgroup_statuses = QueueStatuses(self, cluster, leads(), every)  # type: ignore[arg-type]

    async def request(self, method: str, path: str, *, body: Any, type_: str, timeout: float) -> bytes:
        self.written.append((path, body["status"]))
        if self.planned:
            raise self.planned.pop(0)
        return b"{}"

    def shows(self, *queues: VolcanoQueue | KaiQueue) -> None:
        for thing in queues:
            kind = KAI_QUEUES if isinstance(thing, KaiQueue) else VOLCANO_QUEUES
            add(self.cluster, thing)
            self.podgroup_statuses.seen(kind, [Change(thing.metadata.name, thing)])

    def changes(self) -> None:
        """Some pod comes."""
        self.pods += 1
        coming = pod(f"any{self.pods}")
        self.podgroup_statuses.seen(PODS, [Change(coming.key, coming)])

    def run(self, *steps: Callable[[], None]) -> None:
        async def main() -> None:
            running = asyncio.create_task(self.podgroup_statuses.run())
            for step in steps:
                step()
                await asyncio.sleep(0.05)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        virtualtime.run(main())

    def told(self, name: str) -> list[Any]:
        return [status for path, status in self.written if path.endswith(f"/{name}/status")]


def test_volcanos_queues_say_what_their_pods_hold_with_those_below() -> None:
    pods = members("g", 2, 1, cpu=2, on="a")
    cluster = scenario(plain("a", 4), *pods, *members("w", 1, 1, cpu=1))
    add(cluster, group("g", 2, queue="team"), group("w", 1, queue="team"))
    world = World(cluster)
    world.run(lambda: world.shows(queue("root"), queue("team", parent="root"), queue("idle")))
    assert world.told("team") == [{"allocated": {"cpu": "4", "nvidia.com/gpu": "2", "pods": "2"}}]
    assert world.told("root") == world.told("team")
    assert world.told("idle") == [], "there is nothing to say"


def test_memory_is_a_quantity_and_root_holds_what_all_hold_except_pods_of_other_schedulers() -> None:
    memory = {"requests": {"memory": "1536Mi", "ephemeral-storage": "1000"}}
    own = [Container("c", convert(memory, ResourceRequirements))]
    cluster = scenario(node("a"), pod("mine", containers=own, on="a"), pod("theirs", cpu=1, on="a", scheduler="other"))
    cluster.is_ours = lambda pod: pod.scheduler != "other"
    world = World(cluster)
    world.run(lambda: world.shows(queue("root"), queue("default")))
    held = {"ephemeral-storage": "1000", "memory": "1536Mi", "pods": "1"}
    assert world.told("default") == [{"allocated": held}]
    assert world.told("root") == [{"allocated": held}]


def test_kais_queues_say_what_is_asked_for_and_what_must_not_be_stopped_in_parts_of_cards() -> None:
    notes = {"pod-group-name": "train"}
    cluster = scenario(
        plain("a", 4, gpu_memory=1000),
        part("half", 0.5, annotations=notes, on="a", group="x"),
        pod("whole", 1, annotations={"pod-group-name": "serve"}, on="a"),
        pod("waits", 2, annotations=notes),
    )
    add(cluster, kai_group("train", 1, queue="team"), kai_group("serve", 1, queue="team"))
    add(cluster, kai_group("serve", 1, queue="team", preemptibility="non-preemptible"))
    world = World(cluster)
    world.run(lambda: world.shows(kai_queue("team")))
    (status,) = world.told("team")
    assert status["allocated"]["nvidia.com/gpu"] == "1500m"
    assert status["allocatedNonPreemptible"]["nvidia.com/gpu"] == "1"
    assert status["requested"]["nvidia.com/gpu"] == "3500m"


def test_numbers_are_written_when_they_change_and_what_is_not_held_any_more_is_taken_off() -> None:
    cluster = scenario(node("a", cpu="4"), *members("g", 2, cpu=1, on="a"))
    add(cluster, group("g", 2, queue="team"))
    world, thing = World(cluster), queue("team")

    def shown() -> None:
        world.shows(
            msgspec.structs.replace(
                thing, status=msgspec.structs.replace(thing.status, allocated={"cpu": "2", "pods": "2"})
            )
        )
        for name in ("g-0", "g-1"):
            cluster.remove_pod(f"default/{name}")
        world.changes()

    world.run(lambda: world.shows(thing), world.changes, shown)
    assert world.told("team") == [{"allocated": {"cpu": "2", "pods": "2"}}, {"allocated": {"cpu": None, "pods": None}}]


def test_a_restart_writes_nothing_that_is_there_and_a_controller_that_knows_better_stays_right() -> None:
    cluster = add(scenario(node("a", cpu="4"), *members("g", 2, cpu=1, on="a")), group("g", 2, queue="team"))
    world, thing = World(cluster), queue("team")
    status = msgspec.structs.replace(thing.status, allocated={"cpu": "2", "pods": "2"})
    theirs = msgspec.structs.replace(thing.status, allocated={"cpu": "2", "pods": "2", "memory": "0"})
    world.run(
        lambda: world.shows(msgspec.structs.replace(thing, status=status)),
        lambda: world.shows(msgspec.structs.replace(thing, status=theirs)),
        world.changes,
    )
    assert world.written == []


def test_one_that_leads_again_corrects_what_another_replica_wrote_meanwhile() -> None:
    cluster = add(scenario(node("a", cpu="4"), *members("g", 2, cpu=1, on="a")), group("g", 2, queue="team"))
    world, thing = World(cluster), queue("team")
    theirs = msgspec.structs.replace(thing.status, allocated={"cpu": "3"})
    world.run(
        lambda: world.shows(thing),
        lambda: world.shows(msgspec.structs.replace(thing, status=theirs)),
        world.podgroup_statuses.forget_written,
    )
    held = {"cpu": "2", "pods": "2"}
    assert world.told("team") == [{"allocated": held}, {"allocated": held}]


def test_pods_are_counted_at_most_so_often_and_what_came_to_nothing_is_tried_again() -> None:
    cluster = add(scenario(node("a", cpu="4"), *members("g", 2, cpu=1, on="a")), group("g", 2, queue="team"))
    world = World(cluster, ConnectionLostError("reset"), every=1000.0)
    world.run(lambda: world.shows(queue("team")), world.changes)
    assert len(world.written) == 1
    world = World(cluster, ConnectionLostError("reset"))
    world.run(lambda: world.shows(queue("team")))
    assert len(world.told("team")) == 2


def test_what_changes_nothing_for_queues_is_no_reason_to_count() -> None:
    world = World(scenario())
    podgroup_statuses = world.podgroup_statuses
    informer = ClusterInformer(Mock(), world.cluster, Backoff(draw=lambda: 0.5), BATCH_KINDS)
    podgroup_statuses.listen(informer)
    runs = pod("p", cpu=1, on="a", phase="Pending")

    def counts_again(kind: WatchedKind, thing: Any, gone: bool = False) -> bool:
        podgroup_statuses._changed.clear()
        informer.tell(kind, [Change(kind.resource.key(thing.metadata), thing, gone)])
        return podgroup_statuses._changed.is_set()

    assert not counts_again(NODES, node("a"))
    assert counts_again(PODS, runs)
    assert not counts_again(PODS, pod("p", cpu=1, on="a", phase="Running"))
    assert counts_again(PODS, pod("p", cpu=1, on="a", phase="Succeeded"))
    assert counts_again(PODS, runs, gone=True)
    assert counts_again(VOLCANO_GROUPS, group("g", 1, phase="Pending", queue="q"))
    assert not counts_again(VOLCANO_GROUPS, group("g", 1, phase="Running", queue="q"))
    assert counts_again(VOLCANO_GROUPS, group("g", 1, queue="other"))
    assert counts_again(VOLCANO_QUEUES, queue("q"))
    assert not counts_again(VOLCANO_QUEUES, queue("q", state="Closed"))
