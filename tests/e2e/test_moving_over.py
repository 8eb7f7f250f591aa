"""A cluster as HAMi's scheduler leaves it is taken over while pods run and wait, and can be given back."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import tonnage
from tests.e2e.extending import extended
from tests.migrate.scenes import hami, hami_pod
from tests.scenario import node
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane

pytestmark = pytest.mark.long

RECORD = "hami.io/vgpu-devices-allocated"
MEMORY = 8000
RUNNING, WAITING = 8, 6


def memory_by_card(pods: list[dict[str, Any]]) -> Counter[str]:
    """What HAMi would count on each card: it rebuilds usage from the records, by its grammar."""
    found: Counter[str] = Counter()
    for pod in pods:
        for container in pod["metadata"].get("annotations", {}).get(RECORD, "").split(";"):
            for device in filter(None, container.split(":")):
                uuid, kind, memory, _ = device.split(",")
                assert kind == "NVIDIA"
                found[uuid] += int(memory)
    return found


def facts(pod: dict[str, Any]) -> tuple[object, ...]:
    notes = {key: value for key, value in pod["metadata"]["annotations"].items() if key.startswith("hami.io/")}
    return pod["metadata"]["uid"], pod["spec"]["nodeName"], notes


def test_running_pods_stay_waiting_ones_are_placed_and_hami_can_read_it_all(fresh_control_plane: ControlPlane) -> None:
    plane = fresh_control_plane
    plane.api.create_nodes([node(name, gpus=2, nvidia__com__gpu=20) for name in ("a", "b")])
    deployment, devices = hami()
    plane.api.create("/apis/apps/v1/namespaces/kube-system/deployments", deployment)
    plane.api.create("/api/v1/namespaces/kube-system/configmaps", devices)
    for number in range(RUNNING):
        on = "ab"[number % 2]
        plane.api.create(pods_path(), hami_pod(f"run-{number}", on, f"{on}/{number // 2 % 2}", number))
    for number in range(WAITING):
        plane.api.create(pods_path(), hami_pod(f"wait-{number}"))

    done = tonnage("migrate", "check", "--from", "hami", "--kubeconfig", str(plane.kubeconfig()), "-o", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["found"] == "HAMi v2.10.0, Deployment kube-system/hami-scheduler"
    assert report["problems"] == []
    assert report["replay"]["pods"] == RUNNING
    assert f"of {WAITING} pods that wait, {WAITING} would be placed at once" in report["same"]

    names = [f"run-{number}" for number in range(RUNNING)]
    before = {name: facts(plane.api.get(f"{pods_path()}/{name}")) for name in names}
    with extended(plane) as world:
        world.until_running(*[f"wait-{number}" for number in range(WAITING)])
        world.check()
        after = {name: facts(world.pod(name)) for name in names}
    assert after == before
    pods = plane.api.get(pods_path())["items"]
    assert len(pods) == RUNNING + WAITING
    held = memory_by_card(pods)
    assert sum(held.values()) == 1000 * (RUNNING + WAITING)
    assert max(held.values()) <= MEMORY
    for pod in pods:
        notes = pod["metadata"]["annotations"]
        assert notes["hami.io/vgpu-node"] == pod["spec"]["nodeName"]
        assert notes["hami.io/bind-phase"] == "success"


def test_without_rights_and_without_a_cluster_it_is_a_sentence(control_plane: ControlPlane, tmp_path: Path) -> None:
    done = tonnage("migrate", "check", "--from", "hami", "--kubeconfig", str(control_plane.kubeconfig("x", "wrong")))
    assert done.returncode == 1
    assert "Unauthorized" in done.stderr
    done = tonnage("migrate", "check", "--from", "hami", "--kubeconfig", str(tmp_path / "none"))
    assert done.returncode == 2
    assert str(tmp_path / "none") in done.stderr
