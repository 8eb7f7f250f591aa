"""What `tonnage scheduler` writes about gangs and queues into a real API server, with the rights it is deployed with.

Nodes are full at first; then there is room.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.batching import World, scheduling, wanted
from tests.e2e.deployment import apply, leader_flags
from tests.extender.recording import parsed, values
from tests.scenario import plain
from tests.waiting import until
from tonnage.lab import definitions
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

CONFIG = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: proportion
"""
VOLCANO = f"{definitions.VOLCANO}/namespaces/default/podgroups"
KAI = f"{definitions.KAI_GROUPS}/namespaces/default/podgroups"


@pytest.fixture
def world(control_plane: ControlPlane, tmp_path: Path) -> Iterator[World]:
    """A full node, and nothing else."""
    plane, config = control_plane, tmp_path / "scheduler.yaml"
    config.write_text(CONFIG)
    if not plane.api.get("/api/v1/namespaces", labelSelector="hami.io/webhook=ignore")["items"]:
        apply(plane, "scheduler")
        definitions.install(plane.api, *(name for name in definitions.ALL if name.startswith(("podgroups", "queues"))))
    plane.api.create_nodes([plain("a", 8)])
    plane.api.create_pods([wanted("held", 8, on="a")])
    user = plane.kubeconfig_of("tonnage", "tonnage-scheduler")
    flags = ("--config", str(config), "--group-wait", "10m", *leader_flags())
    with scheduling(plane, *flags, user=user, quick=True) as made:
        yield made
        assert "Forbidden" not in made.scheduler.log.read_text()
    for path in (pods_path(), "/api/v1/nodes"):
        plane.api.delete(path)


def thing(kind: str, version: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def status(world: World, path: str) -> dict[str, Any]:
    found: dict[str, Any] = world.api.get(path).get("status", {})
    return found


def types(world: World, path: str) -> list[str]:
    return [one["type"] for one in status(world, path).get("conditions", ())]


def events(world: World, group: str) -> set[tuple[str, str]]:
    """The reasons and types of the Events on a PodGroup."""
    found = world.api.get("/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={group}")["items"]
    return {(one["reason"], one["type"]) for one in found if one["involvedObject"]["kind"] == "PodGroup"}


def metric(world: World, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = values(parsed(world.scheduler.get("/metrics")).get(name, {}), *labels)
    return found


def until_waiting(world: World, path: str, conditions: str, pods: list[str]) -> dict[str, Any]:
    """The condition of a group, once it and all pods say why they wait."""
    begun = time.monotonic()

    def says_why() -> bool:
        # While not all pods are seen yet, it says that.
        return any("needs 2 of 2 pods placed" in one["message"] for one in status(world, path).get(conditions, ()))

    until(says_why, "the group does not say why", lambda: status(world, path))
    for name in pods:
        world.until_said(name, "0 of 1 nodes fit: 1 InsufficientExtendedResource (a: nvidia.com/gpu: wants 4, 0 of 8")
    print(f"{path}: group and pods say why after {time.monotonic() - begun:.2f} s")  # noqa: T201  figures
    (condition,) = status(world, path)[conditions]
    return dict(condition)


def test_a_gang_of_volcano_waits_runs_and_is_counted_in_its_queue(world: World) -> None:
    version = definitions.VOLCANO.removeprefix("/apis/")
    world.api.create(f"{definitions.VOLCANO}/queues", thing("Queue", version, "research", weight=1))
    world.api.create(VOLCANO, thing("PodGroup", version, "train", minMember=2, queue="research"))
    path = f"{VOLCANO}/train"
    until(lambda: status(world, path).get("phase") == "Inqueue", "a group without pods is not let in")
    names, notes = ["t0", "t1"], {"scheduling.k8s.io/group-name": "train"}
    world.api.create_pods(wanted(name, 4, annotations=notes, cpu=1) for name in names)
    condition = until_waiting(world, path, "conditions", names)
    assert {key: condition[key] for key in ("type", "status", "reason")} == {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
    }
    assert condition["message"].startswith(
        "default/train needs 2 of 2 pods placed, 0 are; default/t0: 0 of 1 nodes fit"
    )
    assert condition["transitionID"]
    assert status(world, path)["phase"] == "Inqueue"
    until(lambda: ("Unschedulable", "Warning") in events(world, "train"), "no Event", lambda: events(world, "train"))
    for name in ("root", "default"):
        assert world.api.get(f"{definitions.VOLCANO}/queues/{name}")["spec"]["reclaimable"] == (name == "default")
    until(lambda: metric(world, "tonnage_gangs_pending") == {(): 1}, "the gang is not counted as waiting")
    world.api.create_nodes([plain("b", 8)])
    world.until_bound(*names)
    until(lambda: status(world, path).get("phase") == "Running", "train does not run", lambda: status(world, path))
    until(lambda: status(world, path).get("running") == 2, "its pods do not run", lambda: status(world, path))
    until(lambda: types(world, path) == ["Scheduled"], "it still says why it waited", lambda: status(world, path))
    queue, held = f"{definitions.VOLCANO}/queues/research", {"cpu": "2", "nvidia.com/gpu": "8", "pods": "2"}
    until(lambda: status(world, queue).get("allocated") == held, "the queue does not say what it holds")
    for name in ("tonnage_queue_allocated", "tonnage_queue_requested"):
        until(lambda: metric(world, name, "queue", "resource").get(("research", "nvidia.com/gpu")) == 8, name)  # noqa: B023
    written = ("PATCH", "podgroups/status", "success")
    labels = ("verb", "resource", "outcome")
    until(lambda: metric(world, "tonnage_api_write_duration_seconds_count", *labels).get(written, 0) >= 3, "few writes")
    found = parsed(world.scheduler.get("/metrics"))
    assert ("research", "cpu") in values(found["tonnage_queue_deserved"], "queue", "resource")
    assert {action for (action,) in values(found["tonnage_action_duration_seconds_count"], "action")} == {
        "enqueue",
        "allocate",
    }
    assert values(found["tonnage_plugin_duration_seconds_total"], "plugin", "point")["proportion", "open"] > 0
    writes = values(found["tonnage_api_write_duration_seconds_count"], "verb", "resource", "outcome")
    assert writes["PATCH", "queues/status", "success"] >= 1
    assert values(found["hami_gpu_shared_count"], "node", "device_index")["b", "0"] == 1


def test_pods_whose_group_comes_after_them_wait_for_it_and_start_whole(world: World) -> None:
    """Three pods of a ReplicaSet, of which two would fit; Volcano's controller makes the group and annotates them."""
    world.api.create_nodes([plain("b", 8)])
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": str(uuid4()), "controller": True}
    names = ["w0", "w1", "w2"]
    for name in names:
        made = pod_manifest(wanted(name, 4, annotations={"scheduling.volcano.sh/group-min-member": "3"}))
        made["metadata"]["ownerReferences"] = [owner]
        world.api.create(pods_path(), made)
    world.until_said("w0", "GroupExpected: Volcano's controllers make a PodGroup for ReplicaSet web")
    version = definitions.VOLCANO.removeprefix("/apis/")
    world.api.create(VOLCANO, thing("PodGroup", version, "podgroup-web", minMember=3))
    notes = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "podgroup-web"}}}
    for name in names:
        world.api.patch(f"{pods_path('default')}/{name}", notes)
    world.until_said("w0", "needs 3 of 3 pods placed")
    assert not world.nodes().keys() & set(names), "it started in pieces"
    world.api.create_nodes([plain("c", 8)])
    world.until_bound(*names)


def test_a_gang_of_kai_says_why_it_waits_and_stops_saying_so(world: World) -> None:
    queues = {"gpu": {"quota": 8}, "cpu": {"quota": -1}, "memory": {"quota": -1}}
    version = definitions.KAI_QUEUES.removeprefix("/apis/")
    world.api.create(f"{definitions.KAI_QUEUES}/queues", thing("Queue", version, "team", resources=queues))
    version = definitions.KAI_GROUPS.removeprefix("/apis/")
    world.api.create(KAI, thing("PodGroup", version, "tune", minMember=2, queue="team"))
    names, path = ["k0", "k1"], f"{KAI}/tune"
    world.api.create_pods(wanted(name, 4, annotations={"pod-group-name": "tune"}, cpu=1) for name in names)
    condition = until_waiting(world, path, "schedulingConditions", names)
    assert condition["transitionID"].isdigit()
    assert {key: condition[key] for key in ("type", "nodePool", "reason", "status")} == {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "reason": "Unschedulable",
        "status": "True",
    }
    assert "default/tune needs 2 of 2 pods placed" in condition["message"]
    world.api.create_nodes([plain("b", 8)])
    world.until_bound(*names)
    until(lambda: status(world, path).get("schedulingConditions") == [], "it still says so")
    queue = f"{definitions.KAI_QUEUES}/queues/team"
    for figure in ("allocated", "requested"):
        until(
            lambda: status(world, queue).get(figure, {}).get("nvidia.com/gpu") == "8",  # noqa: B023
            f"the queue does not say what is {figure}",
            lambda: status(world, queue),
        )
