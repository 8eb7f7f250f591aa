"""Looking at a cluster on a real API server: with the deployed rights, with fewer, and while the server is away."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.viewers import deployed_rules, viewer
from tests.kube.live import run
from tests.scenario import node, pod, running
from tests.waiting import until_true
from tonnage.devices.catalog import default_vendors
from tonnage.kube.client import connect
from tonnage.kube.watch import ForbiddenError
from tonnage.lab import definitions
from tonnage.lab.control_plane import ControlPlane
from tonnage.live.followed import following
from tonnage.live.listed import ListedCluster, list_cluster


def look(kubeconfig: str) -> ListedCluster:
    found: list[ListedCluster] = []

    async def main() -> None:
        client = await connect(kubeconfig)
        try:
            found.append(await list_cluster(client, default_vendors()))
        finally:
            await client.close()

    run(main())
    return found[0]


def some_objects(plane: ControlPlane) -> None:
    definitions.install(plane.api)
    plane.api.create_nodes([node("a", gpus=2), node("b", gpus=2)])
    plane.api.create_pods([running("x", on="a", gpu=1, memory=100), pod("y", 1)])


def test_the_deployed_rights_are_enough_and_all_of_them_are_needed(
    fresh_control_plane: ControlPlane, tmp_path: Path
) -> None:
    plane = fresh_control_plane
    some_objects(plane)
    live = look(viewer(plane, tmp_path, "may-look", deployed_rules()))
    assert live.cluster.nodes.keys() == {"a", "b"}
    assert live.cluster.holders == {"default/x": "a"}
    assert live.cluster.waiting.keys() == {"default/y"}
    assert live.problems() == []

    vital = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    live = look(viewer(plane, tmp_path, "sees-little", vital))
    assert live.cluster.nodes.keys() == {"a", "b"}
    left_out = {problem.object for problem in live.problems()}
    assert {
        "ResourceQuota",
        "PriorityClass",
        "Queue.scheduling.volcano.sh",
        "HyperNode.topology.volcano.sh",
    } <= left_out
    assert len(left_out) == sum(len(rule["resources"]) for rule in deployed_rules()) - len(vital[0]["resources"])


def test_a_tenant_without_nodes_is_told_which_right_is_missing(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = viewer(
        control_plane, tmp_path, "tenant", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    )
    with pytest.raises(ForbiddenError, match="may not list nodes; let this account list and watch them"):
        look(kubeconfig)


def test_a_cluster_is_followed_through_the_absence_of_the_api_server(
    fresh_control_plane: ControlPlane, tmp_path: Path
) -> None:
    plane = fresh_control_plane
    some_objects(plane)
    kubeconfig = viewer(plane, tmp_path, "may-look", deployed_rules())

    async def main() -> None:
        client = await connect(kubeconfig)
        try:
            async with following(client, default_vendors()) as live:
                assert (live.cluster.nodes.keys(), live.problems()) == ({"a", "b"}, [])
                await asyncio.to_thread(plane.api_server.stop)
                await until_true(lambda: live.stale_since is not None)
                first = live.stale_since
                assert live.cluster.nodes.keys() == {"a", "b"}
                await asyncio.to_thread(plane.start_server)
                await asyncio.to_thread(plane.api.create_nodes, [node("c")])
                await until_true(lambda: live.stale_since is None and "c" in live.cluster.nodes)
                assert first is not None
        finally:
            await client.close()

    run(main())
