"""The lab speaks for its nodes: they are ready, and their device plugins answer the handshake."""

from tests.scenario import node
from tests.waiting import until
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.heartbeats import Heartbeats

HANDSHAKE = "hami.io/node-handshake"


def test_nodes_are_ready_and_plugins_report_again_after_they_are_asked(control_plane: ControlPlane) -> None:
    api = control_plane.api
    asked = {HANDSHAKE: "Requesting_2026-01-01 00:00:00"}
    api.create_nodes([node("before", gpus=1, annotations=asked)])
    heartbeats = Heartbeats(control_plane, seconds=0.1)
    try:
        api.create_nodes([node("after", gpus=1)])

        def said(name: str) -> str:
            return str(api.get(f"/api/v1/nodes/{name}")["metadata"]["annotations"].get(HANDSHAKE, ""))

        def is_ready(name: str) -> bool:
            conditions = api.get(f"/api/v1/nodes/{name}")["status"].get("conditions", ())
            return ("Ready", "True") in [(one["type"], one["status"]) for one in conditions]

        until(lambda: is_ready("before") and is_ready("after"), "nodes are not ready")
        until(lambda: said("before").startswith("Reported 20"), "the plugin does not report", lambda: said("before"))
        assert not said("after"), "a plugin that takes no part in the handshake says nothing"
        api.patch("/api/v1/nodes/before", {"metadata": {"annotations": {HANDSHAKE: "Deleted_2026-01-01 00:00:00"}}})
        until(lambda: said("before").startswith("Reported 20"), "the plugin does not come back")
    finally:
        heartbeats.stop()
