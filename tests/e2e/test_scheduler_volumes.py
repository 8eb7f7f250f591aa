"""Volumes that wait for their first consumer, with a real API server and no more rights than deployed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.batching import World, create, gang, scheduling, wanted
from tests.e2e.deployment import account_of, apply, leader_flags
from tests.e2e.provisioning import (
    CLASSES,
    SELECTED_NODE,
    VOLUMES,
    Provisioner,
    VolumeController,
    late_class,
    local_volume,
)
from tests.neighbours import zoned
from tests.waiting import until
from tonnage.lab.api import Api, pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
FAST = late_class("fast", "fast.example.com")
LOCAL = late_class("local", "kubernetes.io/no-provisioner")


@pytest.fixture(scope="module")
def user(control_plane: ControlPlane) -> Path:
    """A kubeconfig with the rights of the deployed scheduler; the storage classes are there, too."""
    apply(control_plane, "scheduler")
    for made in (FAST, LOCAL):
        control_plane.api.create(CLASSES, made)
    return control_plane.kubeconfig_of("tonnage", account_of("scheduler", "scheduler"))


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with two nodes, which is left without them and without pods."""
    control_plane.api.create_nodes([zoned("a"), zoned("b")])
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


@contextmanager
def running(plane: ControlPlane, user: Path) -> Iterator[World]:
    with scheduling(plane, *leader_flags(), user=user) as world:
        yield world
        assert "orbidden" not in world.scheduler.log.read_text()


def create_claim(api: Api, name: str, storage_class: dict[str, Any]) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class["metadata"]["name"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    api.create(CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})


def using(pod: dict[str, Any], claim: str) -> dict[str, Any]:
    """The pod, with a claim."""
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return pod


def single(name: str, claim: str, **more: Any) -> dict[str, Any]:
    return using(pod_manifest(wanted(name, None, cpu="1", **more)), claim)


def claim_of(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = world.api.get(f"{CLAIMS}/{name}")
    return found


def volume_names(api: Api) -> set[str]:
    return {one["metadata"]["name"] for one in api.get(VOLUMES)["items"]}


def told(world: World, name: str) -> str | None:
    """The node that a claim was told."""
    return claim_of(world, name)["metadata"].get("annotations", {}).get(SELECTED_NODE)


def test_a_claim_is_told_its_node_and_the_pod_is_bound_there_once_the_claim_is(plane: ControlPlane, user: Path) -> None:
    create_claim(plane.api, "data", FAST)
    with running(plane, user) as world:
        create(plane.api, [single("p", "data", selector={"kubernetes.io/hostname": "b"})])
        until(lambda: told(world, "data"), "the claim is not told its node", lambda: world.said("p"))
        assert told(world, "data") == "b"
        world.until_said("p", "goes to b once it has its volumes")
        assert "WaitingForVolume" in world.said("p")
        with Provisioner(plane, FAST):
            made = f"pvc-{claim_of(world, 'data')['metadata']['uid']}"
            until(lambda: made in volume_names(plane.api), "no volume is provisioned")
            create(plane.api, [pod_manifest(wanted("other", None, cpu="1"))])
            world.until_bound("other")
            assert world.node_of("p") is None, "its claim has a volume, but is not bound yet"
            with VolumeController(plane):
                world.until_bound("p")
        assert world.node_of("p") == "b"
        assert claim_of(world, "data")["status"]["phase"] == "Bound"


def test_one_free_volume_goes_to_one_pod_and_the_other_says_why_it_waits(plane: ControlPlane, user: Path) -> None:
    names = {"p": "claim-p", "q": "claim-q"}
    for claim in names.values():
        create_claim(plane.api, claim, LOCAL)
    plane.api.create(VOLUMES, local_volume("on-b", "b", "local", "1Gi"))
    with running(plane, user) as world, VolumeController(plane):
        create(plane.api, [single(pod, claim) for pod, claim in names.items()])
        until(lambda: world.nodes(), "neither is bound")
        ((first, node),) = world.nodes().items()
        (late,) = names.keys() - {first}
        assert node == "b"
        assert plane.api.get(f"{VOLUMES}/on-b")["spec"]["claimRef"]["name"] == names[first]
        said = world.until_said(late, "0 of 2 nodes fit")
        assert "NoVolumeForNode" in said
        assert "volumeName" not in claim_of(world, names[late])["spec"]
        assert world.node_of(late) is None
        plane.api.create(VOLUMES, local_volume("on-a", "a", "local", "1Gi"))
        world.until_bound(late)
        assert world.node_of(late) == "a"


def test_a_gang_is_not_bound_while_the_volume_of_one_of_its_pods_is_missing(plane: ControlPlane, user: Path) -> None:
    create_claim(plane.api, "shard", FAST)
    with running(plane, user) as world, VolumeController(plane):
        first, second = gang("g", 2, None)
        create(plane.api, [using(first, "shard"), second])
        world.until_said("g-0", "goes to a once it has its volumes: claim default/shard waits for a new volume")
        world.until_said("g-1", "goes to a once default/g-0 has its volumes")
        create(plane.api, [pod_manifest(wanted("other", None, cpu="1"))])
        world.until_bound("other")
        assert world.nodes().keys() == {"other"}
        with Provisioner(plane, FAST):
            world.until_bound("g-0", "g-1")
        assert world.node_of("g-0") == told(world, "shard")


def test_a_pod_is_decided_about_again_when_the_provisioner_gives_its_node_up(plane: ControlPlane, user: Path) -> None:
    create_claim(plane.api, "moved", FAST)
    with running(plane, user) as world, VolumeController(plane):
        create(plane.api, [single("p", "moved")])
        until(lambda: told(world, "moved"), "the claim is not told its node", lambda: world.said("p"))
        left, other = sorted(("a", "b"), key=lambda name: name != told(world, "moved"))
        world.until_said("p", f"goes to {left} once it has its volumes")
        plane.api.patch(f"/api/v1/nodes/{left}", {"spec": {"unschedulable": True}})
        create(plane.api, [pod_manifest(wanted("probe", None, cpu="1", selector={"kubernetes.io/hostname": left}))])
        world.until_said("probe", "0 of 2 nodes fit")
        plane.api.patch(f"{CLAIMS}/moved", {"metadata": {"annotations": {SELECTED_NODE: None}}})
        until(lambda: told(world, "moved") == other, "the claim is not told another node", lambda: world.said("p"))
        with Provisioner(plane, FAST):
            world.until_bound("p")
        assert world.node_of("p") == other
