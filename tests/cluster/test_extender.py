"""`tonnage extender` with a real kube-scheduler and API server: from creation to devices, and what goes wrong."""

import signal
from collections.abc import Iterator

import msgspec
import pytest

from tests.cluster.extending import SCHEDULER, extended, until
from tests.scenario import node, pod
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.model.pod import Pod


def wanted(name: str, gpus: int = 1, **more: object) -> Pod:
    made = pod(name, gpus, **more)  # type: ignore[arg-type]
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulerName=SCHEDULER))


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

        until(lambda: placed() == 32, "not all cards are full", within=60)
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
        world.until_running(*names, within=90)
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
