"""Calls of `tonnage extender` that kube-scheduler would not make, on a real API server: they place and read nothing."""

from collections.abc import Iterator

import msgspec
import pytest

from tests.e2e.extending import SCHEDULER, World, extended, wanted
from tests.scenario import node, pod
from tests.waiting import until
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.model.node import NodeSpec
from tonnage.model.pod import Pod, SchedulingGate

FLAGS = (f"--scheduler-name={SCHEDULER}", "--kube-qps=100", "--kube-burst=200")


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with a good and a cordoned node, which is left without them again."""
    cordoned = node("b", gpus=1, nvidia__com__gpu=10)
    control_plane.api.create_nodes(
        [node("a", gpus=1, nvidia__com__gpu=10), msgspec.structs.replace(cordoned, spec=NodeSpec(unschedulable=True))]
    )
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


def of(scheduler: str, made: Pod) -> Pod:
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulerName=scheduler))


def bind(world: World, name: str, on: str, **changes: str) -> str:
    """What the extender says to a bind of a pod that exists."""
    uid = world.pod(name)["metadata"]["uid"]
    asked = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": on} | changes
    return str(world.extender.post("/bind", asked)["Error"])


def test_nobody_places_the_pods_of_another_scheduler(plane: ControlPlane) -> None:
    plane.api.create_pods([of("theirs", pod("gpu", 1, memory=1000)), of("theirs", pod("cpu", cpu="1"))])
    with extended(plane, *FLAGS) as world:
        for name in ("gpu", "cpu"):
            for on in ("a", "b"):
                assert "it names the scheduler theirs" in bind(world, name, on)
            assert world.node_of(name) is None
        assert "no UID" in bind(world, "gpu", "a", PodUID="")
        assert "another pod now" in bind(world, "gpu", "a", PodUID="0000")
        reserved = world.extender.post("/filter", {"Pod": world.pod("gpu"), "NodeNames": ["a"]})
        assert "names the scheduler theirs" in reserved["Error"]
        plane.api.create_pods([wanted("ours", 1, memory=8000)])
        world.until_running("ours")
        world.check()


def test_a_cordoned_node_and_a_gated_pod_stay_as_they_are(plane: ControlPlane) -> None:
    gated = wanted("gated", 1, memory=1000)
    gates = [SchedulingGate("example.com/later")]
    plane.api.create_pods(
        [msgspec.structs.replace(gated, spec=msgspec.structs.replace(gated.spec, schedulingGates=gates))]
    )
    plane.api.create_pods([of("anybody", pod("cpu", cpu="1"))])
    with extended(plane) as world:
        assert "scheduling gates (example.com/later)" in bind(world, "gated", "a")
        assert "b is cordoned" in bind(world, "cpu", "b")
        assert world.node_of("gated") is None
        assert world.node_of("cpu") is None
        assert bind(world, "cpu", "a") == "", "without --scheduler-name, pods of any scheduler"
        bound = world.pod("cpu")
        assert bound["spec"]["nodeName"] == "a"
        assert not bound["metadata"].get("annotations"), "plainly"
        plane.api.patch(f"{pods_path()}/gated", {"spec": {"schedulingGates": []}})
        world.until_running("gated")
        world.check()


def test_a_name_that_is_a_path_is_refused(plane: ControlPlane) -> None:
    plane.api.create_pods([of("theirs", pod("p", 1, memory=1000))])
    with extended(plane, *FLAGS) as world:
        for name in ("../../../pods?x=", "p/status", "P", "p" * 300):
            assert "at PodName: " in bind(world, "p", "a", PodName=name)
        assert "at Node: " in bind(world, "p", "../a")
        assert "at PodNamespace: " in bind(world, "p", "a", PodNamespace="..")
        until(lambda: world.extender.get("/healthz") == "ok", "the extender is not well")
        assert world.node_of("p") is None
