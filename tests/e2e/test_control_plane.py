"""The practice cluster itself: a real API server and a real kube-scheduler."""

from typing import Any

import pytest

from tests.scenario import node, pod, running
from tests.waiting import until
from tonnage.lab import parts
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.model.wire import decode


def test_the_server_has_the_pinned_version(control_plane: ControlPlane) -> None:
    assert control_plane.api.get("/version")["gitVersion"] == parts.control_plane().version


def test_objects_of_the_model_can_be_created_with_their_status(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create_nodes([node("a", gpus=2), node("b")])
    api.create_pods([running("x", on="a", gpu=1, memory=100), pod("y", 1), pod("z", on="b", phase="Succeeded")])
    assert {n["metadata"]["name"] for n in api.get("/api/v1/nodes")["items"]} == {"a", "b"}
    pods: dict[str, Any] = {p["metadata"]["name"]: p for p in api.get(pods_path())["items"]}
    assert {name: (p["spec"].get("nodeName"), p["status"]["phase"]) for name, p in pods.items()} == {
        "x": ("a", "Running"),
        "y": (None, "Pending"),
        "z": ("b", "Succeeded"),
    }
    assert "a/1,NVIDIA,100,0" in pods["x"]["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]


def test_kube_scheduler_places_a_pod(control_plane: ControlPlane) -> None:
    control_plane.run_scheduler()
    control_plane.api.create_nodes([node("only")])
    control_plane.api.create_pods([pod("placed", selector={"kubernetes.io/hostname": "only"})])
    control_plane.api.patch("/api/v1/nodes/only", {"metadata": {"labels": {"kubernetes.io/hostname": "only"}}})
    path = f"{pods_path()}/placed"
    until(lambda: control_plane.api.get(path)["spec"].get("nodeName") == "only", "the pod is not bound")


def test_a_service_account_has_only_the_rights_it_was_given(control_plane: ControlPlane) -> None:
    control_plane.api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "guest"}})
    config = decode(control_plane.kubeconfig_of("default", "guest").read_bytes(), dict[str, Any])
    handover = Api(control_plane.server, config["users"][0]["user"]["token"], str(control_plane.authority))
    with pytest.raises(ApiError, match="cannot list resource") as refusal:
        handover.get("/api/v1/nodes")
    assert refusal.value.status == 403
    handover.close()


def test_the_server_can_be_stopped_and_comes_back_with_what_it_knew(control_plane: ControlPlane) -> None:
    control_plane.api.create_nodes([node("remembered")])
    control_plane.api_server.stop()
    with pytest.raises(ConnectionError):
        control_plane.api.get("/api/v1/nodes")
    control_plane.start_server()
    assert control_plane.api.get("/api/v1/nodes/remembered")
