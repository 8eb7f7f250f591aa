"""`tonnage scheduler` with a real API server: single pods, gangs, GPU shares, and what those who wait are told."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.batching import Scheduler, create, gang, scheduling, wanted
from tests.e2e.deployment import apply, leader_flags
from tests.scenario import node, plain
from tests.waiting import until
from tonnage.lab import definitions
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import Player, playing


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without nodes and pods, which is left without them again."""
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


def test_pods_that_name_it_get_whole_gpus_and_others_are_left_alone(plane: ControlPlane) -> None:
    plane.api.create_nodes([plain("a", 2), plain("b", 2)])
    gated = pod_manifest(wanted("gated", 1))
    gated["spec"]["schedulingGates"] = [{"name": "example.com/not-yet"}]
    create(plane.api, [gated])
    plane.api.create_pods([wanted("p", 1), wanted("stranger", 1, scheduler="another"), wanted("held", 2, on="b")])
    with scheduling(plane) as world:
        world.until_bound("p")
        assert world.node_of("p") == "a", "b is full: a pod of nobody's scheduling holds it"
        assert "annotations" not in world.pod("p")["metadata"], "the kubelet chooses plain GPUs itself"
        assert world.node_of("stranger") is None
        assert world.node_of("gated") is None
        assert "SchedulingGated" in world.said("gated")
        plane.api.patch(f"{pods_path()}/gated", {"spec": {"schedulingGates": None}})
        world.until_bound("gated")


def test_parts_of_plain_gpus_are_named_in_annotations(plane: ControlPlane) -> None:
    plane.api.create_nodes([plain("a", 2, gpu_memory=1000)])
    plane.api.create_pods(wanted(f"half{number}", None, annotations={"gpu-fraction": "0.5"}) for number in range(3))
    with scheduling(plane) as world:
        world.until_bound("half0", "half1", "half2")
        record = "hami.io/vgpu-devices-allocated"
        cards = [world.pod(f"half{number}")["metadata"]["annotations"][record] for number in range(3)]
        assert sorted(card.partition(",")[0] for card in cards) in (["a/0", "a/0", "a/1"], ["a/0", "a/1", "a/1"])
        assert all(card.endswith(",NVIDIA,500,0:;") for card in cards)
        plane.api.create_pods([wanted("whole", 1)])
        world.until_said("whole", "0 of 1 nodes fit")


def test_gangs_start_whole_or_not_at_all(plane: ControlPlane) -> None:
    plane.api.create_nodes([plain("a", 4), plain("b", 4)])
    with scheduling(plane) as world:
        create(plane.api, gang("fits", 6, 1))
        world.until_bound(*(f"fits-{number}" for number in range(6)))
        create(plane.api, gang("large", 4, 1))
        said = world.until_said("large-0", "needs 4 of 4 pods placed, 2 fit")
        assert said.startswith("False Unschedulable: JobNotReady: default/large")
        assert not any(name.startswith("large") for name in world.nodes())
        for number in range(2):
            plane.api.delete(f"{pods_path()}/fits-{number}")
        world.until_bound(*(f"large-{number}" for number in range(4)))


def test_gangs_of_volcano_wait_in_their_queue_with_no_more_rights_than_deployed(plane: ControlPlane) -> None:
    apply(plane, "scheduler")
    shares = {"pool": "shares"}
    plane.api.create_nodes([plain("a", 4), node("b", gpus=1, labels=shares, cpu="8", nvidia__com__gpu=10)])
    user = plane.kubeconfig_of("tonnage", "tonnage-scheduler")
    with scheduling(plane, *leader_flags(), user=user) as world:
        notes = {"scheduling.k8s.io/group-name": "train"}
        plane.api.create_pods(wanted(f"t{number}", 1, annotations=notes, cpu=16) for number in range(3))
        world.until_said("t0", "GroupNotFound")
        definitions.install(plane.api, "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh")
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}
        group = {
            **queue,
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "spec": {"minMember": 4, "queue": "research"},
        }
        plane.api.create(f"{definitions.VOLCANO}/namespaces/default/podgroups", group)
        world.until_said("t0", "QueueNotFound")
        plane.api.create(f"{definitions.VOLCANO}/queues", queue)
        world.until_said("t0", "needs 4 pods to start, and there are 3")
        plane.api.create_pods(
            [wanted("t3", 1, annotations=notes, cpu=16), wanted("shared", 1, memory=100, selector=shares)]
        )
        world.until_bound("t0", "t1", "t2", "t3", "shared")
        until(lambda: world.pod("shared")["metadata"].get("labels"), "the label is missing")
        assert "Forbidden" not in world.scheduler.log.read_text()


def test_pods_that_share_gpus_get_their_devices_with_their_node(plane: ControlPlane) -> None:
    plane.api.create_nodes([node(name, gpus=2, nvidia__com__gpu=20) for name in ("a", "b")])
    with scheduling(plane) as world:
        plane.api.create_pods([wanted("p", 1, memory=1000, cores=30)])
        until(lambda: world.pod("p")["status"]["phase"] == "Running", "p does not run")
        found = world.pod("p")
        annotations = found["metadata"]["annotations"]
        assert annotations["hami.io/vgpu-node"] == found["spec"]["nodeName"] == "a"
        assert annotations["hami.io/vgpu-devices-allocated"] == "a/1,NVIDIA,1000,30:;"
        assert annotations["hami.io/bind-phase"] == "success"
        names = [f"q{number:02}" for number in range(16)]
        plane.api.create_pods(wanted(name, 1, memory=2000) for name in names)
        until(lambda: len(world.nodes()) == 16, "the cards are not full")
        until(lambda: len(world.player.started) == 16, "not all that are placed run")
        world.check()
        (waits,) = set(names) - world.nodes().keys()
        world.until_said(waits, "0 of 2 nodes fit: 2 CardInsufficientMemory")


class DeafNode(Player):
    """Its kubelet on node a asks no device plugin until it is told to."""

    def __init__(self, plane: ControlPlane) -> None:
        self.may_answer = threading.Event()
        super().__init__(plane)

    def _allocate(self, pod: dict[str, Any]) -> bool:
        if pod["spec"]["nodeName"] == "a":
            while not self.may_answer.wait(0.05):
                if self._stopped.is_set():
                    return False
        return super()._allocate(pod)


def test_pods_go_elsewhere_while_a_device_plugin_keeps_its_node_busy(plane: ControlPlane) -> None:
    plane.api.create_nodes([node(name, gpus=2, labels={"rack": name}, nvidia__com__gpu=20) for name in ("a", "b")])
    names = ["p0", "p1", "p2", "p3"]
    player = DeafNode(plane)
    with scheduling(plane, player=player) as world:
        plane.api.create_pods(wanted(name, 1, memory=1000) for name in names)
        world.until_bound(*names)
        on_a = [name for name in names if world.node_of(name) == "a"]
        assert len(on_a) == 1, "the others were placed on a too, waited two seconds and left"
        plane.api.create_pods([wanted("only-there", 1, memory=1000, selector={"rack": "a"})])
        world.until_said("only-there", "DevicePluginBusy")
        world.until_said("only-there", "DevicePluginSilent")
        player.may_answer.set()
        world.until_bound("only-there")
        until(lambda: len(player.started) == 5, "not all run")
        world.check()


def test_a_full_cluster_says_why_and_room_is_used_once_there_is_some(plane: ControlPlane) -> None:
    plane.api.create_nodes([plain(name, 2) for name in ("a", "b", "c")])
    with scheduling(plane) as world:
        plane.api.create_pods(wanted(f"p{number}", 2) for number in range(3))
        world.until_bound("p0", "p1", "p2")
        plane.api.create_pods([wanted("late", 1)])
        said = world.until_said("late", "0 of 3 nodes fit: 3 ")
        assert said.startswith("False Unschedulable: ")
        cycles = world.scheduler.metric("tonnage_cycle_duration_seconds_count")
        plane.api.patch(f"{pods_path()}/p1/status", {"status": {"message": "still here"}})
        plane.api.patch("/api/v1/nodes/a/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        time.sleep(0.5)
        assert world.scheduler.metric("tonnage_cycle_duration_seconds_count") == cycles, (
            "nothing has changed that matters"
        )
        freed = time.monotonic()
        plane.api.delete(f"{pods_path()}/p1")
        world.until_bound("late")
        print(f"a pod that waited was bound {time.monotonic() - freed:.2f} s after another left")  # noqa: T201  figures
        events = plane.api.get("/api/v1/namespaces/default/events")["items"]
        told = {(one["involvedObject"]["name"], one["reason"], one["type"]) for one in events}
        assert ("late", "FailedScheduling", "Warning") in told


def test_a_restart_finds_everything_as_it_was(plane: ControlPlane) -> None:
    plane.api.create_nodes([plain("a", 4)])
    with scheduling(plane) as world:
        create(plane.api, gang("g", 2, 1))
        world.until_bound("g-0", "g-1")
        world.scheduler.stop()
        plane.api.create_pods([wanted("p", 2), wanted("late", 1)])
        world.scheduler.start()
        until(lambda: len(world.nodes()) == 3, "one of the two does not fit beside the gang")
        world.until_said(next(name for name in ("p", "late") if world.node_of(name) is None), "0 of 1 nodes fit")
        assert world.scheduler.metric('tonnage_informer_lists_total{kind="Pod"}') == 1, (
            "the lease was free when it came"
        )


def test_five_hundred_pods_on_a_hundred_nodes(plane: ControlPlane) -> None:
    plane.api.create_nodes(plain(f"n{number:03}", 8) for number in range(100))
    plane.api.create_pods(wanted(f"p{number:03}", 1) for number in range(500))
    with playing(plane, quick=True) as player:
        started = time.monotonic()
        scheduler = Scheduler(plane.kubeconfig(), plane.folder / "tonnage-scheduler.log")
        try:
            until(lambda: len(player.bound_at) == 500, "not all are bound")
        finally:
            scheduler.stop()
    first, last = min(player.bound_at), max(player.bound_at)
    with_start, steady = 500 / (last - started), 499 / (last - first)
    print(f"{with_start:.0f} pods per second with start-up, {steady:.0f} from the first on")  # noqa: T201  figures
    nodes = {one["spec"]["nodeName"] for one in plane.api.get(pods_path())["items"]}
    assert len(nodes) == 63, "nodes are packed"
