"""Kinds that are not installed, forbidden to list, or hold nonsense: the informer goes on with the others."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kube.fake_server import NODES, PODS, QUOTAS, FakeServer, fake_server, groups_only, status
from tests.kube.live import QUICK, Live, live, run
from tests.scenario import node, pod
from tests.waiting import until_true
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE
from tonnage.devices.catalog import default_vendors
from tonnage.kube.client import connect
from tonnage.kube.compare import compare, fresh_cluster
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import BATCH_KINDS, KAI_QUEUES, VOLCANO_QUEUES, WATCHED, WatchedKind
from tonnage.model.group import CoschedulingPodGroup, KaiPodGroup, PriorityClass, VolcanoPodGroup
from tonnage.model.hypernode import HyperNode
from tonnage.model.quota import PodDisruptionBudget
from tonnage.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tonnage.model.topology import Topology

BUDGETS = WATCHED[PodDisruptionBudget]
CLAIMS = WATCHED[PersistentVolumeClaim]
COSCHEDULING_GROUPS = WATCHED[CoschedulingPodGroup]
CSI_CAPACITIES = WATCHED[CSIStorageCapacity]
CSI_DRIVERS = WATCHED[CSIDriver]
CSI_NODES = WATCHED[CSINode]
HYPERNODES = WATCHED[HyperNode]
KAI_GROUPS = WATCHED[KaiPodGroup]
NAMESPACES = WATCHED[Namespace]
PRIORITY_CLASSES = WATCHED[PriorityClass]
STORAGE_CLASSES = WATCHED[StorageClass]
TOPOLOGIES = WATCHED[Topology]
VOLCANO_GROUPS = WATCHED[VolcanoPodGroup]
VOLUMES = WATCHED[PersistentVolume]

BUILT_IN = {kind.resource.path for kind in BATCH_KINDS if not kind.resource.is_custom}
CUSTOM = {kind.resource.path for kind in BATCH_KINDS if kind.resource.is_custom}
QUEUES, GROUPS = VOLCANO_QUEUES.resource.path, VOLCANO_GROUPS.resource.path


def thing(name: str, **content: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **content}


def plain_cluster(server: FakeServer) -> None:
    server.served = set(BUILT_IN)
    server.put(node("a", gpus=2))


def with_everything(server: FakeServer) -> None:
    server.served = BUILT_IN | CUSTOM
    server.put(node("a", gpus=2))


def member(name: str, group: str) -> Any:
    made = pod(name, 1)
    metadata = made.metadata.__class__(name=name, annotations={"scheduling.k8s.io/group-name": group})
    return made.__class__(metadata, made.spec, made.status)


# -- installed, removed, installed again


def test_without_definitions_the_picture_is_complete_and_they_are_noticed_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, plain_cluster, kinds=BATCH_KINDS) as now:
            assert now.cluster.nodes.keys() == {"a"}
            assert now.informer.reflectors["PodGroup.scheduling.volcano.sh"].is_missing
            assert not now.informer.trouble
            now.server.put(member("p", "g"))
            await now.until(lambda: "default/g" in now.cluster.groups.jobs)
            assert now.cluster.groups.jobs["default/g"].is_lost
            now.server.served |= {QUEUES, GROUPS}
            now.server.put_plain(QUEUES, thing("q", spec={"weight": 3}))
            now.server.put_plain(GROUPS, thing("g", spec={"minMember": 2, "queue": "q"}))
            await now.until(lambda: "q" in now.cluster.queues and not now.cluster.groups.jobs["default/g"].is_lost)
            assert now.cluster.queues["q"].weight == 3
            assert now.cluster.groups.jobs["default/g"].queue == "q"
            assert not now.informer.reflectors["PodGroup.scheduling.volcano.sh"].is_missing
            assert now.informer.reflectors["PodGroup.scheduling.run.ai"].is_missing
            await now.until_same()

    run(main())


def test_objects_of_a_definition_that_is_removed_are_forgotten(tmp_path: Path) -> None:
    def prepare(server: FakeServer) -> None:
        with_everything(server)
        server.put_plain(QUEUES, thing("q", spec={"weight": 3}))
        server.put_plain(KAI_QUEUES.resource.path, thing("k"))
        server.put_plain(QUEUES, thing("broken", spec={"weight": "x"}))

    async def main() -> None:
        async with live(tmp_path, prepare, kinds=BATCH_KINDS) as now:
            assert {"q", "k"} <= now.cluster.queues.keys()
            assert now.informer.problems
            # Nobody says of each object that it is gone: the list that follows must do.
            now.server.objects = {at: one for at, one in now.server.objects.items() if at[0] != QUEUES}
            now.server.uninstall(QUEUES)
            await now.until(lambda: now.cluster.queues.keys() == {DEFAULT_QUEUE, "k"})
            assert not now.informer.problems
            assert not now.informer.trouble
            now.server.served.add(QUEUES)
            now.server.put_plain(QUEUES, thing("again"))
            await now.until(lambda: "again" in now.cluster.queues)
            await now.until_same()

    run(main())


def test_one_question_answers_for_all_kinds_that_are_missing(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, plain_cluster, kinds=BATCH_KINDS) as now:
            questions = lambda: [path for path, _ in now.server.asked if path == "/apis"]  # noqa: E731
            before = len(questions())
            begun = asyncio.get_running_loop().time()
            await now.until(lambda: len(questions()) >= before + 5)
            passed = asyncio.get_running_loop().time() - begun
            assert len(questions()) - before <= 2 * passed / QUICK.missing + 1
            assert all(len(now.server.lists(path)) == 1 for path in CUSTOM)

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        lambda served: (200, groups_only(served)),
        lambda _: (403, status(403, "Forbidden")),
        lambda _: (200, {"items": 7}),
    ],
    ids=["groups and versions only", "not allowed", "nonsense"],
)
def test_a_server_that_does_not_say_what_it_serves_is_asked_for_lists(
    tmp_path: Path, answer: Callable[[set[str]], tuple[int, dict[str, Any]]]
) -> None:
    def prepare(server: FakeServer) -> None:
        plain_cluster(server)
        server.discovery = answer

    async def main() -> None:
        async with live(tmp_path, prepare, kinds=BATCH_KINDS) as now:
            now.server.served.add(QUEUES)
            now.server.put_plain(QUEUES, thing("q"))
            await now.until(lambda: "q" in now.cluster.queues)

    run(main())


def test_a_built_in_kind_that_is_not_found_is_trouble(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            server.served = BUILT_IN - {QUOTAS}
            informer, task, client = await begun(server, tmp_path)
            await until_true(lambda: "404" in informer.trouble.get("ResourceQuota", ""))
            assert not informer.synced.is_set()
            server.served.add(QUOTAS)
            await until_true(informer.synced.is_set)
            await ended(task, client)

    run(main())


def test_a_door_that_asks_for_less_follows_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, with_everything) as now:
            assert {path for path, _ in now.server.asked} == {NODES, PODS, QUOTAS}
            assert now.informer.reflectors.keys() == {"Node", "Pod", "ResourceQuota"}

    run(main())


# -- not allowed


async def begun(server: FakeServer, folder: Path) -> tuple[ClusterInformer, asyncio.Task[None], Any]:
    client = await connect(server.kubeconfig(folder))
    informer = ClusterInformer(client, Cluster(default_vendors()), QUICK, BATCH_KINDS)
    return informer, asyncio.create_task(informer.run()), client


async def ended(task: asyncio.Task[None], client: Any) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.close()


def test_a_kind_that_may_not_be_listed_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    def prepare(server: FakeServer) -> None:
        with_everything(server)
        server.forbidden = {QUEUES, STORAGE_CLASSES.resource.path}
        server.put_plain(QUEUES, thing("q"))

    async def main() -> None:
        async with live(tmp_path, prepare, kinds=BATCH_KINDS) as now:
            assert now.informer.trouble["Queue.scheduling.volcano.sh"].startswith(
                'may not list queues of API group "scheduling.volcano.sh"; let this account list and watch them'
            )
            assert now.informer.trouble["StorageClass"].startswith("may not list storageclasses")
            now.server.put_plain(GROUPS, thing("g", spec={"minMember": 2}))
            await now.until(lambda: "default/g" in now.cluster.groups.groups)
            await now.until_same()
            now.server.forbidden = set()
            await now.until(lambda: "q" in now.cluster.queues and not now.informer.trouble)

    run(main())


def test_what_was_known_stays_when_the_leave_to_see_it_is_taken_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, with_everything, kinds=BATCH_KINDS) as now:
            now.server.put_plain(QUEUES, thing("q"))
            await now.until(lambda: "q" in now.cluster.queues)
            now.server.forbidden = {QUEUES}
            now.server.stop_connections()
            await now.until(lambda: "may not" in now.informer.trouble.get("Queue.scheduling.volcano.sh", ""))
            assert "q" in now.cluster.queues

    run(main())


def test_the_picture_is_not_complete_without_what_is_vital(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            with_everything(server)
            server.forbidden = {PODS}
            informer, task, client = await begun(server, tmp_path)
            await until_true(lambda: "may not list pods;" in informer.trouble.get("Pod", ""))
            assert not informer.synced.is_set()
            server.forbidden = set()
            await until_true(informer.synced.is_set)
            await ended(task, client)

    run(main())


# -- nonsense


@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        (VOLCANO_QUEUES, {"spec": {"weight": "many"}}, "Queue/bad: spec.weight: "),
        (VOLCANO_QUEUES, {"spec": {"capability": {"cpu": "lots"}}}, "Queue/bad: spec.capability[cpu]: "),
        (KAI_QUEUES, {"spec": {"preemptMinRuntime": "soon"}}, "Queue/bad: spec.preemptMinRuntime: "),
        (VOLCANO_GROUPS, {"spec": {"minResources": {"cpu": "-1"}}}, "PodGroup/default/bad: spec.minResources[cpu]: "),
        (KAI_GROUPS, {"spec": {"minMember": -1}}, "PodGroup/default/bad: spec.minMember: "),
        (COSCHEDULING_GROUPS, {"spec": []}, "PodGroup/default/bad: spec: "),
        (PRIORITY_CLASSES, {"value": 2**40}, "PriorityClass/bad: value: "),
        (HYPERNODES, {"spec": {"tier": "top"}}, "HyperNode/bad: spec.tier: "),
        (TOPOLOGIES, {"spec": {"levels": [7]}}, "Topology/bad: spec.levels[0]: "),
        (CLAIMS, {"spec": {"accessModes": "all"}}, "PersistentVolumeClaim/default/bad: spec.accessModes: "),
    ],
)
def test_a_broken_object_is_a_problem_and_the_others_go_on(
    tmp_path: Path, kind: WatchedKind, content: dict[str, Any], told: str
) -> None:
    path = kind.resource.path

    def prepare(server: FakeServer) -> None:
        with_everything(server)
        server.put_plain(path, thing("bad", **content))
        server.put_plain(path, SAMPLES[path][0] | thing("good"))

    async def main() -> None:
        async with live(tmp_path, prepare, kinds=BATCH_KINDS) as now:
            assert len(now.informer.problems) == 1
            assert str(*now.informer.problems.values()).startswith(told)
            assert known(now, kind) == {"good"}
            now.server.put_plain(path, SAMPLES[path][0] | thing("bad"))
            await now.until(lambda: known(now, kind) == {"good", "bad"})
            assert not now.informer.problems
            now.server.put_plain(path, thing("bad", **content))
            await now.until(lambda: bool(now.informer.problems))
            assert known(now, kind) == {"good", "bad"}, "what was known stays"

    run(main())


# -- every kind

SAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    PRIORITY_CLASSES.resource.path: ({"value": 5}, {"value": 6}),
    NAMESPACES.resource.path: ({}, {"metadata": {"name": "x", "labels": {"team": "a"}}}),
    CLAIMS.resource.path: ({}, {"spec": {"volumeName": "v"}}),
    VOLUMES.resource.path: ({}, {"spec": {"storageClassName": "s"}}),
    STORAGE_CLASSES.resource.path: ({"provisioner": "p"}, {"provisioner": "q"}),
    CSI_NODES.resource.path: ({}, {"spec": {"drivers": [{"name": "d", "allocatable": {"count": 3}}]}}),
    CSI_DRIVERS.resource.path: ({}, {"spec": {"storageCapacity": True}}),
    CSI_CAPACITIES.resource.path: ({"storageClassName": "s"}, {"capacity": "1Gi"}),
    BUDGETS.resource.path: ({"spec": {"minAvailable": 1}}, {"spec": {"minAvailable": 2}}),
    VOLCANO_QUEUES.resource.path: ({"spec": {"weight": 2}}, {"spec": {"weight": 3}}),
    KAI_QUEUES.resource.path: ({"spec": {"priority": 2}}, {"spec": {"priority": 3}}),
    VOLCANO_GROUPS.resource.path: ({"spec": {"minMember": 2}}, {"status": {"phase": "Inqueue"}}),
    KAI_GROUPS.resource.path: ({"spec": {"minMember": 2}}, {"spec": {"minMember": 3}}),
    COSCHEDULING_GROUPS.resource.path: ({"spec": {"minMember": 2}}, {"spec": {"minMember": 3}}),
    TOPOLOGIES.resource.path: ({}, {"spec": {"levels": [{"nodeLabel": "rack"}]}}),
    HYPERNODES.resource.path: ({"spec": {"tier": 1}}, {"spec": {"tier": 2}}),
}
"""An object of each kind, and how it changes."""
MORE = [kind for kind in BATCH_KINDS if kind.resource.path in SAMPLES]


def known(now: Live, kind: WatchedKind) -> set[str]:
    """Names of what is known of a kind, but for what every cluster has."""
    keys = {key.rpartition("/")[2] for key in kind.handler.known(now.cluster)}
    return {key for key in keys if not key.startswith("system-")}


def test_every_kind_has_a_sample() -> None:
    assert SAMPLES.keys() == BUILT_IN - {NODES, PODS, QUOTAS} | CUSTOM


@pytest.mark.parametrize("kind", MORE, ids=lambda kind: kind.resource.name)
def test_objects_come_change_and_go_and_comparing_notices_each(tmp_path: Path, kind: WatchedKind) -> None:
    path = kind.resource.path
    first, then = SAMPLES[path]

    async def main() -> None:
        async with live(tmp_path, with_everything, kinds=BATCH_KINDS) as now:
            empty = await fresh_cluster(now.client, now.cluster.vendors, BATCH_KINDS)
            now.server.put_plain(path, thing("x", **first))
            await now.until(lambda: known(now, kind) == {"x"})
            await now.until_same()
            old = await fresh_cluster(now.client, now.cluster.vendors, BATCH_KINDS)
            assert {each.live for each in compare(now.cluster, empty)} == {"present"}
            now.server.put_plain(path, {**thing("x", **first), **then})
            await now.until(lambda: bool(compare(now.cluster, old)))
            await now.until_same()
            now.server.delete(path, "x")
            await now.until(lambda: not known(now, kind))
            await now.until_same()

    run(main())


@pytest.mark.parametrize("kind", MORE, ids=lambda kind: kind.resource.name)
def test_what_was_deleted_unseen_is_forgotten_with_the_next_list(tmp_path: Path, kind: WatchedKind) -> None:
    path = kind.resource.path

    def prepare(server: FakeServer) -> None:
        with_everything(server)
        for name in ("stays", "goes"):
            server.put_plain(path, thing(name, **SAMPLES[path][0]))

    async def main() -> None:
        async with live(tmp_path, prepare, kinds=BATCH_KINDS) as now:
            assert known(now, kind) == {"stays", "goes"}
            now.server.delete(path, "goes")
            now.server.forget_history()
            await now.until(lambda: known(now, kind) == {"stays"})
            await now.until_same()

    run(main())


def test_of_two_queues_of_one_name_volcanos_counts_while_it_is_there(tmp_path: Path) -> None:
    def prepare(server: FakeServer) -> None:
        with_everything(server)
        server.put_plain(KAI_QUEUES.resource.path, thing("q"))

    async def main() -> None:
        async with live(tmp_path, prepare, kinds=BATCH_KINDS) as now:
            assert now.cluster.queues["q"].by_kai
            now.server.put_plain(QUEUES, thing("q"))
            await now.until(lambda: not now.cluster.queues["q"].by_kai)
            now.server.put_plain(KAI_QUEUES.resource.path, thing("q", spec={"priority": 7}))
            await now.until_same()
            assert not now.cluster.queues["q"].by_kai
            assert [str(problem) for problem in now.cluster.groups.problems()] == [
                "Queue/q: metadata.name: objects of several schedulers have this name; Volcano's counts "
                "(expected each name once)"
            ]
            now.server.uninstall(QUEUES)
            await now.until(lambda: now.cluster.queues["q"].priority == 7)
            assert not list(now.cluster.groups.problems())

    run(main())
