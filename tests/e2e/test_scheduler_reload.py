"""`tonnage scheduler` with a real API server: its configuration changes while it runs, and its state is replayed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import decided
from tests.e2e.batching import World, create, scheduling, wanted
from tests.e2e.deployment import apply, leader_flags
from tests.scenario import plain
from tests.waiting import until
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

MAPS = "/api/v1/namespaces/tonnage/configmaps"
NAME = "tonnage-scheduler-config"
EVENTS = "/api/v1/namespaces/tonnage/events"
PLUGINS = "tiers:\n- plugins:\n  - name: gang\n"
ALLOCATES, DOES_NOT = f"actions: allocate\n{PLUGINS}", f"actions: backfill\n{PLUGINS}"
RECORD = "hami.io/vgpu-devices-allocated"


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without nodes and pods, which is left without them again."""
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


def reloads(world: World, outcome: str) -> float:
    return world.scheduler.metric(f'tonnage_config_reloads_total{{outcome="{outcome}"}}')


def refusals(plane: ControlPlane) -> list[dict[str, Any]]:
    items = plane.api.get(EVENTS)["items"]
    return [event for event in items if event["reason"] == "ConfigurationRefused"]


def test_a_config_map_is_followed_with_no_more_rights_than_deployed(plane: ControlPlane) -> None:
    apply(plane, "scheduler", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    plane.api.create_nodes([plain("a", 4)])
    made = plane.api.create(MAPS, {"metadata": {"name": NAME}, "data": {"config.yaml": DOES_NOT}})
    user = plane.kubeconfig_of("tonnage", "tonnage-scheduler")
    with scheduling(plane, "--config", f"configmap:tonnage/{NAME}", *leader_flags(), user=user) as world:
        plane.api.create_pods([wanted("p", 1)])
        world.until_said("p", "NotConsidered")
        plane.api.patch(f"{MAPS}/{NAME}", {"data": {"config.yaml": ALLOCATES}})
        world.until_bound("p")
        assert world.scheduler.get("/debug/config") == ALLOCATES

        plane.api.patch(f"{MAPS}/{NAME}", {"data": {"config.yaml": ALLOCATES.replace("gang", "gnag")}})
        until(lambda: refusals(plane), "no Event tells of it")
        (event,) = refusals(plane)
        assert event["type"] == "Warning"
        assert event["involvedObject"]["kind"] == "ConfigMap"
        assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
        assert f"configmap:tonnage/{NAME}:4:11: there is no plugin gnag; did you mean gang?" in event["message"]
        plane.api.delete(f"{MAPS}/{NAME}")
        until(lambda: reloads(world, "refused") == 2, "that it is gone is no reason")
        assert reloads(world, "taken") == 1
        plane.api.create_pods([wanted("q", 1)])
        world.until_bound("q")
        assert "Forbidden" not in world.scheduler.log.read_text()


def test_a_file_is_followed(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create_nodes([plain("a", 4)])
    plane.api.create_pods([wanted("p", 1)])
    config = tmp_path / "config.yaml"
    config.write_text(DOES_NOT)
    with scheduling(plane, "--config", str(config)) as world:
        world.until_said("p", "NotConsidered")
        config.write_text(ALLOCATES)
        world.until_bound("p")


def test_a_snapshot_is_replayed_to_what_the_scheduler_does(plane: ControlPlane, tmp_path: Path) -> None:
    """The cluster is full; then a pod goes, in the cluster and in the snapshot."""
    half = {"gpu-fraction": "0.5"}
    config = tmp_path / "config.yaml"
    config.write_text(f"{ALLOCATES}  - name: binpack\n")
    plane.api.create_nodes([plain("a", 2, gpu_memory=1000), plain("b", 1, gpu_memory=1000)])
    with scheduling(plane, "--config", str(config)) as world:
        plane.api.create_pods(wanted(name, 1) for name in ("x", "y", "z"))
        world.until_bound("x", "y", "z")
        secret = pod_manifest(wanted("h0", None, annotations=half))
        secret["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hush"}]
        create(plane.api, [secret])
        plane.api.create_pods([wanted(f"h{number}", None, annotations=half) for number in (1, 2)])
        plane.api.create_pods([wanted("large", 2), wanted("stranger", 1, scheduler="another")])
        for name in ("h0", "h1", "h2", "large"):
            world.until_said(name, "0 of 2 nodes fit")
        text = world.scheduler.get("/debug/snapshot")
        assert "hush" not in text
        now = replay(tmp_path, world, text)
        assert now.keys() == {"default/h0", "default/h1", "default/h2", "default/large"}
        for name, decision in now.items():
            waits = {f"{one['nodes']} {one['reason']}" for one in decision["rejected"]}
            said = world.said(name.removeprefix("default/"))
            assert decision["node"] is None
            assert waits
            assert all(words in said for words in waits), said

        gone = min(name for name, node in world.nodes().items() if node == "a")
        then = replay(tmp_path, world, text, without=gone)
        plane.api.delete(f"{pods_path()}/{gone}")
        placed = {name.removeprefix("default/"): one for name, one in then.items() if one["node"]}
        assert len(placed) == 2, "two halves share the card"
        world.until_bound(*placed)
        live = {name: node for name, node in world.nodes().items() if f"default/{name}" in now}
        assert live == {name: one["node"] for name, one in placed.items()}
        for name, one in placed.items():
            (device,) = one["devices"]
            assert world.pod(name)["metadata"]["annotations"][RECORD].startswith(f"{device['uuid']},NVIDIA,500,")


def replay(folder: Path, world: World, text: str, without: str = "") -> dict[str, dict[str, Any]]:
    """What `tonnage schedule` decides with what the scheduler tells of itself."""
    (folder / "replayed.yaml").write_text(world.scheduler.get("/debug/config"))
    snapshot = json.loads(text)
    snapshot["items"] = [one for one in snapshot["items"] if one["metadata"]["name"] != without]
    goes_by = snapshot["items"][0]["data"]
    assert goes_by["config.yaml"] == (folder / "replayed.yaml").read_text()
    return decided(
        *("-f", "-", "--config", folder / "replayed.yaml", "--now", goes_by["now"]), stdin=json.dumps(snapshot)
    )
