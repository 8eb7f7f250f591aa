"""`tonnage extender` with a real kube-scheduler and API server: from creation to devices, and what goes wrong."""

import json
import signal
from collections.abc import Iterator

import msgspec
import pytest

from tests.e2e.extending import extended, wanted
from tests.scenario import node
from tests.waiting import until
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without nodes and pods, which is left without them again."""
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


def test_a_pod_gets_its_node_and_its_devices_in_one_write(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=2, nvidia__com__gpu=20), node("b")])
    with extended(plane) as world:
        plane.api.create_pods([wanted("p", 1, memory=1000, cores=30)])
        world.until_running("p")
        found = world.pod("p")
        annotations = found["metadata"]["annotations"]
        assert found["spec"]["nodeName"] == annotations["hami.io/vgpu-node"] == "a"
        assert annotations["hami.io/vgpu-devices-allocated"] == "a/1,NVIDIA,1000,30:;"
        assert annotations["hami.io/bind-phase"] == "success"
        until(
            lambda: world.pod("p")["metadata"].get("labels", {}).get("hami.io/vgpu-node") == "a", "the label is missing"
        )
        world.check()


def test_many_pods_at_once_fill_the_cards_and_never_more(plane: ControlPlane) -> None:
    plane.api.create_nodes(node(f"n{number}", gpus=2, nvidia__com__gpu=20) for number in range(4))
    with extended(plane, delay=0.02) as world:
        names = [f"p{number:02}" for number in range(36)]
        plane.api.create_pods(wanted(name, 1, memory=2000) for name in names)

        def placed() -> int:
            return sum(1 for one in plane.api.get(pods_path())["items"] if one["spec"].get("nodeName"))

        until(lambda: placed() == 32, "not all cards are full")
        world.check()
        until(lambda: len(world.player.started) == 32, "not all that are placed run")
        waiting = [one for one in plane.api.get(pods_path())["items"] if not one["spec"].get("nodeName")]
        assert len(waiting) == 4
        (condition,) = waiting[0]["status"]["conditions"]
        assert "4 CardInsufficientMemory" in condition["message"]
        world.check()


def test_two_pods_that_meet_on_a_node_are_not_mixed_up_while_its_plugin_is_slow(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    with extended(plane, delay=0.3) as world:
        names = [f"p{number}" for number in range(5)]
        plane.api.create_pods(wanted(name, 1, memory=1000) for name in names)
        world.until_running(*names)
        world.check()


def test_a_restart_in_the_middle_loses_and_doubles_nothing(plane: ControlPlane) -> None:
    plane.api.create_nodes(node(f"n{number}", gpus=2, nvidia__com__gpu=20) for number in range(3))
    with extended(plane, delay=0.05) as world:
        names = [f"p{number:02}" for number in range(24)]
        plane.api.create_pods(wanted(name, 1, memory=2000) for name in names)
        until(lambda: len(world.player.started) >= 4, "nothing runs")
        world.extender.stop(signal.SIGKILL)
        world.extender.start()
        world.until_running(*names)
        world.check()


def test_a_pod_that_is_deleted_between_filter_and_bind_leaves_nothing_behind(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    with extended(plane) as world:
        plane.api.create_pods([wanted("p", 1, memory=8000)])
        world.until_running("p")
        other = msgspec.to_builtins(wanted("ghost", 1, memory=8000))
        other["metadata"]["uid"] = "0000"
        answer = world.extender.post("/filter", {"Pod": other, "NodeNames": ["a"]})
        assert answer["FailedNodes"] == {"a": "CardInsufficientMemory"}
        plane.api.delete(f"{pods_path()}/p")
        until(
            lambda: world.extender.post("/filter", {"Pod": other, "NodeNames": ["a"]})["NodeNames"] == ["a"],
            "the card is not free",
        )
        bound = world.extender.post(
            "/bind", {"PodName": "ghost", "PodNamespace": "default", "PodUID": "0000", "Node": "a"}
        )
        assert "404" in bound["Error"]
        plane.api.create_pods([wanted("q", 1, memory=8000)])
        world.until_running("q")
        world.check()


def test_a_node_that_vanishes_takes_nothing_new(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10), node("b", gpus=1, nvidia__com__gpu=10)])
    with extended(plane) as world:
        plane.api.create_pods([wanted("p", 1, memory=1000)])
        world.until_running("p")
        assert world.node_of("p") == "a"
        plane.api.delete("/api/v1/nodes/a")
        plane.api.create_pods([wanted("q", 1, memory=1000)])
        world.until_running("q")
        assert world.node_of("q") == "b"


def test_kube_scheduler_may_choose_among_all_that_fit(plane: ControlPlane) -> None:
    plane.api.create_nodes([node(name, gpus=2, nvidia__com__gpu=20) for name in "abc"])
    with extended(plane, "--placement=kube-scheduler", verbs=["prioritize"]) as world:
        names = [f"p{number}" for number in range(6)]
        plane.api.create_pods(wanted(name, 1, memory=4000) for name in names)
        world.until_running(*names)
        world.check()


@pytest.mark.parametrize(("policy", "nodes"), [("binpack", 1), ("spread", 2)])
def test_the_node_policy_is_followed(plane: ControlPlane, policy: str, nodes: int) -> None:
    plane.api.create_nodes([node(name, gpus=2, nvidia__com__gpu=20) for name in "ab"])
    with extended(plane, f"--node-scheduler-policy={policy}") as world:
        for name in ("p", "q"):
            plane.api.create_pods([wanted(name, 1, memory=1000)])
            world.until_running(name)
        assert len({world.node_of(name) for name in ("p", "q")}) == nodes
        world.check()


def test_requests_that_cannot_be_read_are_answered_and_hurt_nobody(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    with extended(plane) as world:
        for path in ("/filter", "/bind"):
            for body in ([], {"Pod": 5}, {"Pod": {"spec": {"containers": "x"}}}, {"Node": ["a"]}):
                assert world.extender.post(path, body)["Error"]
        assert world.extender.post("/prioritize", {}) == []
        with pytest.raises(OSError, match="400"):
            world.extender.post("/webhook", {"kind": "Nonsense"})
        assert world.extender.get("/healthz") == "ok"
        plane.api.create_pods([wanted("p", 1, memory=1000)])
        world.until_running("p")


def test_other_vendors_cards_are_handed_out_in_their_own_annotations(plane: ControlPlane) -> None:
    dcu = "".join(f"DCU-{number},4,16384,100,DCU-Z100,0,true,{number},:" for number in range(2))
    npu = [
        {"id": f"NPU-{number}", "index": number, "count": 4, "devmem": 65536, "devcore": 20, "health": True}
        | {"type": "Ascend910B3"}
        for number in range(2)
    ]
    annotations = {"hami.io/node-dcu-register": dcu, "hami.io/node-register-Ascend910B3": json.dumps(npu)}
    offers = {"hygon.com/dcunum": 8, "huawei.com/Ascend910B3": 8}
    mixed = node("mixed", annotations=annotations)
    status = msgspec.structs.replace(mixed.status, allocatable={**(mixed.status.allocatable or {}), **offers})
    plane.api.create_nodes([msgspec.structs.replace(mixed, status=status), node("bare")])
    with extended(plane, "--enable-ascend") as world:
        limits = {
            "dcu": {"hygon.com/dcunum": 1, "hygon.com/dcumem": 4096, "hygon.com/dcucores": 20},
            "npu": {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 16384},
        }
        for name, wants in limits.items():
            plane.api.create_pods([wanted(name, None, **wants)])  # type: ignore[arg-type]
        world.until_running(*limits)
        shown = {name: world.pod(name)["metadata"]["annotations"] for name in limits}
        assert shown["dcu"]["hami.io/dcu-devices-allocated"].startswith("DCU-")
        assert shown["npu"]["hami.io/Ascend910B3-devices-allocated"].startswith("NPU-")
        assert "huawei.com/Ascend910B3" in shown["npu"]
        world.check()


def test_a_pod_whose_plugin_failed_is_reported_and_its_place_is_free(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    with extended(plane, delay=3600) as world:
        plane.api.create_pods([wanted("p", 1, memory=8000)])
        until(lambda: world.node_of("p") == "a", "the pod is not bound")
        failed = {"metadata": {"annotations": {"hami.io/bind-phase": "failed"}}}
        plane.api.patch(f"{pods_path()}/p", failed)
        plane.api.patch(f"{pods_path()}/p/status", {"status": {"phase": "Failed"}})
        plane.api.create_pods([wanted("q", 1, memory=8000)])
        until(lambda: world.node_of("q") == "a", "the card is not free")
        events = plane.api.get("/api/v1/namespaces/default/events")["items"]
        assert any(e["reason"] == "BindingFailed" and e["involvedObject"]["name"] == "p" for e in events)
