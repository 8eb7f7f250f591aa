"""`tonnage scheduler` stops pods for others on a real API server, with no more rights than deployed."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.config.texts import KAI_DEFAULT
from tests.e2e.batching import World, create, scheduling, wanted
from tests.e2e.deployment import apply, leader_flags
from tests.scenario import plain
from tests.waiting import until
from tonnage.lab import definitions
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane

LOW, HIGH = "low", "high"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture(scope="module")
def everything(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One scheduler with KAI's configuration for all tests, with two priorities and the queues `q` and `r`."""
    api = control_plane.api
    apply(control_plane, "scheduler")
    definitions.install(api, "podgroups.scheduling.run.ai", "queues.scheduling.run.ai")
    for name, value in ((LOW, 10), (HIGH, 50)):
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**made, "value": value})
    for name, cards in (("q", 2), ("r", 0)):
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        shares = {"gpu": {"quota": cards, "limit": -1, "overQuotaWeight": 0}, "cpu": free, "memory": free}
        made = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}}
        api.create(f"{definitions.KAI_QUEUES}/queues", {**made, "spec": {"resources": shares}})
    config: Path = tmp_path_factory.mktemp("config") / "kai.yaml"
    config.write_text(KAI_DEFAULT)
    user = control_plane.kubeconfig_of("tonnage", "tonnage-scheduler")
    with scheduling(control_plane, "--config", str(config), *leader_flags(), user=user) as world:
        yield world
    assert "orbidden" not in world.scheduler.log.read_text()


@pytest.fixture
def world(everything: World) -> Iterator[World]:
    """Without nodes and pods, and left without them."""
    yield everything
    for path in (pods_path(), "/api/v1/nodes", BUDGETS, f"{definitions.KAI_GROUPS}/namespaces/default/podgroups"):
        everything.api.delete(path)


def asks(name: str, gpus: int, importance: str, queue: str = "q", grace: int = 1, **more: Any) -> dict[str, Any]:
    """A pod in a queue, which takes that many seconds to end."""
    made = pod_manifest(wanted(name, gpus, **{"annotations": {"tonnage.io/queue": queue}, **more}))
    made["spec"].update(priorityClassName=importance, terminationGracePeriodSeconds=grace)
    return made


def run(world: World, *manifests: dict[str, Any]) -> None:
    """Pods that run before the test begins."""
    create(world.api, manifests)
    names = [one["metadata"]["name"] for one in manifests]
    until(lambda: all(world.pod(name)["status"]["phase"] == "Running" for name in names), f"{names} do not run")


def there(world: World) -> dict[str, bool]:
    """All pods, and whether they are on their way out."""
    pods = world.api.get(pods_path())["items"]
    return {one["metadata"]["name"]: "deletionTimestamp" in one["metadata"] for one in pods}


def leaving(world: World) -> set[str]:
    return {name for name, leaves in there(world).items() if leaves}


def told(world: World, name: str) -> dict[str, str]:
    """What Events say about a pod, by reason."""
    events = world.api.get("/api/v1/namespaces/default/events")["items"]
    return {one["reason"]: one["message"] for one in events if one["involvedObject"]["name"] == name}


def stays_so(look: Callable[[], object], seconds: float) -> bool:
    """Whether nothing changes for that long."""
    first, end = look(), time.monotonic() + seconds
    while time.monotonic() < end:
        if look() != first:
            return False
        time.sleep(0.1)
    return True


def budget(world: World, allowed: int) -> None:
    """For pods with the label `app: served`; no controller keeps its status here."""
    made = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "served"}}}
    world.api.create(BUDGETS, {**made, "spec": spec})
    counts = {"currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 2}
    status = {"observedGeneration": 1, "disruptionsAllowed": allowed, **counts}
    world.api.patch(f"{BUDGETS}/keep/status", {"status": status})


def test_an_important_pod_gets_the_place_of_a_less_important_one_and_of_no_more(world: World) -> None:
    world.api.create_nodes([plain("a", 2, gpu_memory=1000)])
    run(world, asks("old", 1, LOW))
    run(world, asks("young", 1, LOW))
    create(world.api, [asks("other", 1, HIGH, queue="r"), asks("p", 1, HIGH)])
    until(lambda: leaving(world) == {"young"}, "young is not evicted")
    disrupted = world.pod("young")["status"]["conditions"]
    assert "EvictionByEvictionAPI" in [one.get("reason") for one in disrupted if one["type"] == "DisruptionTarget"]
    assert world.pod("p")["status"]["nominatedNodeName"] == "a"
    world.until_said("p", "goes to a once default/young left")
    world.until_bound("p")
    assert there(world).keys() == {"old", "other", "p"}
    assert world.node_of("other") is None, "the room was made for p"
    until(lambda: "Preempted" in told(world, "young"), "nothing is told of young")
    assert told(world, "young")["Preempted"] == "Preempted by default/p on node a: default/p has priority 50"
    assert 'tonnage_evictions_total{action="preempt",outcome="evicted"} 1.0' in world.scheduler.get("/metrics")


def test_a_queue_takes_back_its_share(world: World) -> None:
    world.api.create_nodes([plain("a", 2, gpu_memory=1000)])
    run(world, asks("r0", 1, HIGH, queue="r"))
    run(world, asks("r1", 1, HIGH, queue="r"))
    create(world.api, [asks("p", 1, LOW)])
    world.until_bound("p")
    assert there(world).keys() == {"r0", "p"}
    until(lambda: "Preempted" in told(world, "r1"), "nothing is told of r1")
    assert told(world, "r1")["Preempted"].endswith("queue q takes back its share")


def test_nobody_goes_whom_a_budget_protects_until_it_allows_it(world: World) -> None:
    world.api.create_nodes([plain("a", 2, gpu_memory=1000)])
    run(world, *[asks(f"served{number}", 1, LOW, labels={"app": "served"}) for number in range(2)])
    for number in range(2):
        # Pods that are not ready may go whatever a budget says.
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        world.api.patch(f"{pods_path()}/served{number}/status", ready)
    budget(world, 1)
    create(world.api, [asks("both", 2, HIGH)])
    world.until_said("both", "2 pods of PodDisruptionBudget keep have to go and 1 may")
    assert leaving(world) == set()
    world.api.delete(f"{pods_path()}/both")
    world.api.delete(f"{BUDGETS}/keep")
    assert stays_so(lambda: leaving(world), 1.5), "nobody is evicted for a pod that is gone"
    budget(world, 0)
    create(world.api, [asks("one", 1, HIGH)])
    world.until_said("one", "cannot be evicted: Cannot evict pod as it would violate the pod's disruption budget")
    assert leaving(world) == set()
    world.api.delete(f"{BUDGETS}/keep")
    world.until_bound("one")
    assert len(there(world)) == 2


def test_a_scheduler_that_is_killed_between_eviction_and_bind_stops_nobody_else(world: World) -> None:
    world.api.create_nodes([plain("a", 2, gpu_memory=1000), plain("b", 1, gpu_memory=1000)])
    names = ["x0", "x1", "x2"]
    for name in names:
        run(world, asks(name, 1, LOW, grace=5))
    create(world.api, [asks("p", 2, HIGH), asks("other", 2, HIGH, queue="r")])
    until(lambda: len(leaving(world)) == 2, "two have to go")
    world.scheduler.stop(signal.SIGKILL)
    victims = leaving(world)
    world.scheduler.start()
    assert not world.node_of("p"), "the test is too slow: the victims are gone"
    world.until_bound("p")
    assert world.node_of("p") == "a"
    assert there(world).keys() == {*names, "p", "other"} - victims
    assert leaving(world) == set()
    assert world.node_of("other") is None


def test_what_is_left_of_a_gang_is_stopped_after_its_grace(world: World) -> None:
    world.api.create_nodes([plain("a", 2, gpu_memory=1000)])
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "gang"}}
    path = f"{definitions.KAI_GROUPS}/namespaces/default/podgroups"
    world.api.create(path, {**group, "spec": {"minMember": 2, "queue": "q", "stalenessGracePeriod": "2s"}})
    notes = {"pod-group-name": "gang"}
    run(world, *[asks(f"gang-{number}", 1, LOW, annotations=notes, grace=0) for number in range(2)])
    world.api.delete(f"{pods_path()}/gang-1")
    since = "kai.scheduler/stale-podgroup-timestamp"
    until(lambda: since in world.api.get(f"{path}/gang")["metadata"].get("annotations", {}), "no time is written")
    assert there(world).keys() == {"gang-0"}
    until(lambda: not there(world), "gang-0 stays")
    until(lambda: "Evicted" in told(world, "gang-0"), "nothing is told of gang-0")
    until(lambda: since not in world.api.get(f"{path}/gang")["metadata"].get("annotations", {}), "the time stays")
