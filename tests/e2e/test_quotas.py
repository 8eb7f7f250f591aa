"""Quotas on cards on a real API server: refused at admission, waiting in filter, and followed as they change."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.e2e.extending import SCHEDULER, World, extended, wanted
from tests.e2e.quotas import QUOTAS, set_quota
from tests.scenario import node
from tests.waiting import until
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

MEMORY, CORES = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without nodes, pods and quotas, which is left without them again."""
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes", QUOTAS):
        control_plane.api.delete(path)


def admitted(world: World, gpus: int, **more: int) -> dict[str, Any]:
    """What the webhook says about a new pod."""
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod_manifest(wanted("new", gpus, **more)),
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer: dict[str, Any] = world.extender.post("/webhook", document)["response"]
    return answer


def filtered(world: World, gpus: int, **more: int) -> dict[str, Any]:
    """What filter says about a pod that nobody has created; its place is given up by the next question."""
    plain = msgspec.to_builtins(wanted("ghost", gpus, **more))
    plain["metadata"]["uid"] = "ghost"
    answer: dict[str, Any] = world.extender.post("/filter", {"Pod": plain, "NodeNames": ["a"]})
    return answer


def test_a_pod_over_quota_is_refused_or_waits_and_goes_on_when_the_quota_is_raised(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=4, nvidia__com__gpu=40)])
    set_quota(plane, gpumem="10000", gpucores="200")
    with extended(plane, f"--scheduler-name={SCHEDULER}") as world:
        plane.api.create_pods([wanted("p", 1, memory=6000, cores=50)])
        world.until_running("p")
        refused = admitted(world, 2, memory=3000)
        assert not refused["allowed"]
        assert refused["status"]["message"] == (
            "exceeding resource quota: nvidia.com/gpumem is limited to 10000, 6000 are used, and the pod asks for 6000"
        )
        assert not admitted(world, 2, memory=10, cores=80)["allowed"]
        assert admitted(world, 1, memory=4000, cores=100)["allowed"]
        # A whole card says no MiB when it is created, so it waits for a node instead.
        assert admitted(world, 1)["allowed"]
        plane.api.create_pods([wanted("whole", 1)])

        def message() -> str:
            conditions = world.pod("whole")["status"].get("conditions", [])
            return " ".join(condition.get("message", "") for condition in conditions)

        until(lambda: "1 ResourceQuotaNotFit" in message(), "the pod does not wait for the quota", more=message)
        assert filtered(world, 1)["FailedNodes"] == {"a": "ResourceQuotaNotFit"}
        plane.api.patch(f"{QUOTAS}/gpus", {"spec": {"hard": {MEMORY: "14000"}}})
        until(lambda: filtered(world, 1)["NodeNames"] == ["a"], "the change of the quota is not seen")
        plane.api.delete(f"{QUOTAS}/gpus")
        until(lambda: filtered(world, 4, cores=100)["FailedNodes"] != {"a": "ResourceQuotaNotFit"}, "still limited")
        world.check()


def test_many_pods_at_once_never_hold_more_than_the_quota(plane: ControlPlane) -> None:
    plane.api.create_nodes(node(f"n{number}", gpus=4, nvidia__com__gpu=40) for number in range(2))
    set_quota(plane, gpumem="24500")
    with extended(plane) as world:
        plane.api.create_pods(wanted(f"p{number:02}", 1, memory=2000) for number in range(20))

        def placed() -> int:
            return sum(1 for one in plane.api.get(pods_path())["items"] if one["spec"].get("nodeName"))

        until(lambda: placed() == 12, "the quota is not used up")
        until(lambda: len(world.player.started) == 12, "not all that are placed run")
        assert placed() == 12
        world.check()
