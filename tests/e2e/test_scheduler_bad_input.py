"""`tonnage scheduler` on a cluster in which much is wrong at once: each is told, and the healthy rest goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.batching import World, create, gang, scheduling, wanted
from tests.scenario import ALLOCATED, REGISTER, node, plain
from tests.waiting import until
from tonnage.lab import definitions
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

KINDS = ("podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh")
GROUPS = f"{definitions.VOLCANO}/namespaces/default/podgroups"
QUEUES = f"{definitions.VOLCANO}/queues"
GROUP = "scheduling.k8s.io/group-name"


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with definitions of groups and queues, which is left without anything again."""
    definitions.install(control_plane.api, *KINDS)
    yield control_plane
    definitions.remove(control_plane.api, *KINDS)
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


def group(plane: ControlPlane, name: str, **spec: Any) -> None:
    thing = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    plane.api.create(GROUPS, {**thing, "spec": {"minMember": 1, **spec}})


def queue(plane: ControlPlane, name: str, **spec: Any) -> None:
    thing = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    plane.api.create(QUEUES, {**thing, "spec": spec})


def of_group(name: str, number: int = 0) -> dict[str, Any]:
    return pod_manifest(wanted(f"{name}-{number}", 1, annotations={GROUP: name}))


def of_containers(name: str, count: int) -> dict[str, Any]:
    made = pod_manifest(wanted(name, 1))
    (container,) = made["spec"]["containers"]
    made["spec"]["containers"] = [{**container, "name": f"c{number}"} for number in range(count)]
    return made


def group_says(world: World, name: str) -> str:
    conditions = world.api.get(f"{GROUPS}/{name}").get("status", {}).get("conditions", [])
    return " ".join(f"{one['type']} {one['reason']}: {one['message']}" for one in conditions)


def test_much_is_wrong_at_once_and_the_healthy_rest_goes_on(plane: ControlPlane) -> None:
    plane.api.create_nodes([plain("a", 4), plain("b", 4), node("garbled", annotations={REGISTER: "!!"})])
    plane.api.create_pods([wanted("held", 1, on="b", annotations={ALLOCATED: "x;;:,"})])
    queue(plane, "x", parent="y")
    queue(plane, "y", parent="x")
    group(plane, "noqueue", queue="missing")
    group(plane, "few", minMember=5)
    group(plane, "negative", minMember=-3)
    group(plane, "strange", minResources={"cpu": "abc"})
    group(plane, "circle", queue="x")
    group(plane, "fine", minMember=2)
    wrong = [
        *(of_group(name) for name in ("noqueue", "few", "negative", "strange", "gone")),
        *(
            pod_manifest(wanted(f"p{number}", gpus, annotations=annotations))
            for number, (gpus, annotations) in enumerate(
                [
                    (None, {"gpu-fraction": "abc"}),
                    (1, {"tonnage.io/min-members": "-2"}),
                    (1, {"tonnage.io/queue": "../é\n " + "q" * 5000}),
                    (1, {GROUP: "few", "pod-group-name": "fine"}),
                ]
            )
        ),
        of_containers("thousand", 1000),
        *gang("impossible", 20, 1),
    ]
    with scheduling(plane) as world:
        create(plane.api, [*wrong, of_group("circle"), of_group("fine", 0), of_group("fine", 1)])
        plane.api.create_pods([wanted("alone", 1), wanted("part", None, annotations={"gpu-fraction": "0.5"})])
        world.until_bound("circle-0", "fine-0", "fine-1", "alone", "part")
        for name, words in {
            "noqueue-0": "QueueNotFound: default/noqueue is in queue missing",
            "few-0": "NotEnoughPods: default/few needs 5 pods to start, and there are 2",
            "negative-0": "PodGroup/default/negative: spec.minMember: Expected `int` >= 0",
            "strange-0": "PodGroup/default/strange: spec.minResources[cpu]: 'abc' is not a quantity",
            "gone-0": "GroupNotFound: the pods name the PodGroup default/gone",
            "p0": "annotation gpu-fraction: 'abc' is not a number above 0 and below 1",
            "p1": "annotation tonnage.io/min-members is '-2'; expected a whole number from 1 up",
            "p2": r"QueueNotFound: default/p2 is in queue ../é\n qqq",
            "p3": "NotEnoughPods: default/few needs 5 pods",
            "thousand": "nvidia.com/gpu: wants 1000",
            "impossible-0": "needs 20 of 20 pods placed",
        }.items():
            world.until_said(name, words)
        for name, words in {
            "few": "NotEnoughTasks: NotEnoughPods: default/few needs 5 pods",
            "noqueue": "default/noqueue is in queue missing",
        }.items():
            until(lambda: words in group_says(world, name), f"{name} does not say {words!r}")  # noqa: B023
        assert set(world.nodes()) == {"held", "circle-0", "fine-0", "fine-1", "alone", "part"}
        found = {problem["object"] for problem in json.loads(world.scheduler.get("/debug/problems"))}
        named = {"Node/garbled", "Pod/default/held", "Queue/y", "PodGroup/default/negative", "PodGroup/default/strange"}
        assert named <= found
        until(lambda: world.scheduler.metric("tonnage_cluster_problems") >= 3, "nobody looks for problems")
        assert "Traceback" not in world.scheduler.log.read_text()


def test_definitions_that_go_and_come_back(plane: ControlPlane) -> None:
    plane.api.create_nodes([plain("a", 4)])
    group(plane, "before", minMember=2)
    with scheduling(plane) as world:
        create(plane.api, [of_group("before")])
        world.until_said("before-0", "NotEnoughPods")
        definitions.remove(plane.api, *KINDS)
        plane.api.create_pods([wanted("alone", 1)])
        world.until_bound("alone")
        world.until_said("before-0", "GroupNotFound")
        definitions.install(plane.api, *KINDS)
        group(plane, "before", minMember=2)
        world.until_said("before-0", "NotEnoughPods")
        create(plane.api, [of_group("before", 1)])
        world.until_bound("before-0", "before-1")
        assert "Traceback" not in world.scheduler.log.read_text()
