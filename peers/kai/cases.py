"""Cases for KAI's controllers: workloads that its podgrouper groups, and what queues and groups show.

The operators of PyTorchJobs, RayClusters and JobSets are played: a case creates their object and then the pods, with
the references and labels that an operator gives them.
"""

import time
from collections.abc import Callable
from typing import Any

from peers.cases import name_of, until
from peers.kai.cluster import GPU, NODE_GPUS, NODES, World, gpu_node

_WATCHED = 8.0
"""Seconds during which nothing must happen; longer than the scheduler waits for a group."""
CASES: dict[str, Callable[[World], None]] = {}


def _case(function: Callable[[World], None]) -> Callable[[World], None]:
    CASES[name_of(function)] = function
    return function


def _pytorch_job(world: World, name: str, workers: int, gpus: int, pause: float = 0.0, queue: str = "") -> None:
    replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": workers}}
    owner = world.owner("PyTorchJob", name, {"pytorchReplicaSpecs": replicas}, queue)
    of_job = {"training.kubeflow.org/job-name": name}
    masters = {"training.kubeflow.org/replica-type": "master", "training.kubeflow.org/job-role": "master"}
    world.pods_of(owner, [f"{name}-master-0"], gpus, {**of_job, **masters}, pause)
    names = [f"{name}-worker-{number}" for number in range(workers)]
    world.pods_of(owner, names, gpus, {**of_job, "training.kubeflow.org/replica-type": "worker"}, pause)


def _until_running(world: World, prefix: str, count: int) -> None:
    until(
        lambda: len(world.running(prefix)) == count, f"{count} pods of {prefix} must run", lambda: world.running(prefix)
    )


def _none_starts(world: World, prefix: str) -> None:
    deadline = time.monotonic() + _WATCHED
    while time.monotonic() < deadline:
        started = world.bound(prefix)
        assert not started, f"of a gang that cannot start whole, {started} have started"
        time.sleep(0.2)


def _conditions(group: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = group.get("status", {}).get("schedulingConditions") or []
    return found


@_case
def a_Job_becomes_a_group_per_pod_and_runs(world: World) -> None:  # noqa: N802
    world.job("plain", 3, 1)
    _until_running(world, "plain", 3)
    until(lambda: len(world.groups("plain")) == 3, "each pod has a group")
    assert {group["spec"]["minMember"] for group in world.groups("plain")} == {1}


@_case
def a_PyTorchJob_starts_whole(world: World) -> None:  # noqa: N802
    _pytorch_job(world, "torch", 3, NODE_GPUS)
    _until_running(world, "torch", 4)
    (group,) = world.groups("torch")
    assert group["spec"]["minMember"] == 4


@_case
def impossible_PyTorchJobs_start_no_pod_and_start_whole_when_they_fit(world: World) -> None:  # noqa: N802
    for number, pause in enumerate((0.0, 0.05, 0.2, 0.5, 1.0)):
        name = f"large-{number}"
        _pytorch_job(world, name, NODES + 1, NODE_GPUS, pause)
        _none_starts(world, name)
        until(lambda name=name: all(map(_conditions, world.groups(name))), f"{name} says why it waits")  # type: ignore[misc]
    more = [f"more-{number}" for number in range(2)]
    world.cluster.add_nodes(gpu_node(name) for name in more)
    try:
        until(lambda: len(world.running("large")) == NODES + 2, "one gang runs", lambda: world.bound("large"))
        gangs = {name.rsplit("-", 2)[0] for name in world.bound("large")}
        assert len(gangs) == 1, f"pods of several gangs run: {world.bound('large')}"
    finally:
        for name in more:
            world.api.delete(f"/api/v1/nodes/{name}")


@_case
def a_RayCluster_starts_with_its_head_and_its_minimum_of_workers(world: World) -> None:  # noqa: N802
    worker = {"groupName": "workers", "replicas": 2, "minReplicas": 2, "maxReplicas": 6}
    owner = world.owner("RayCluster", "ray", {"headGroupSpec": {}, "workerGroupSpecs": [worker]})
    world.pods_of(owner, ["ray-head"], 0, {"ray.io/node-type": "head", "ray.io/cluster": "ray"})
    _none_starts(world, "ray")
    labels = {"ray.io/node-type": "worker", "ray.io/cluster": "ray"}
    world.pods_of(owner, ["ray-worker-0", "ray-worker-1"], NODE_GPUS, labels)
    _until_running(world, "ray", 3)
    (group,) = world.groups("ray")
    assert group["spec"]["minMember"] == 3


@_case
def a_JobSet_runs_as_one_group(world: World) -> None:  # noqa: N802
    owner = world.owner("JobSet", "set", {"replicatedJobs": [{"name": "workers", "replicas": 2}]})
    names = [f"set-workers-{job}-{pod}" for job in range(2) for pod in range(2)]
    world.pods_of(owner, names, 2, {"jobset.sigs.k8s.io/jobset-name": "set"})
    _until_running(world, "set", 4)
    until(lambda: len(world.groups("set")) == 1, "its pods are one group")


@_case
def the_queue_of_a_workload_is_its_groups_and_counts_what_runs(world: World) -> None:
    world.queue("department")
    world.queue("team", "department", gpus=8)
    try:
        _pytorch_job(world, "mine", 1, 4, queue="team")
        _until_running(world, "mine", 2)
        (group,) = world.groups("mine")
        assert group["spec"]["queue"] == "team"
        until(lambda: _gpus(world, "team") == 8, "the queue counts its GPUs", lambda: world.status("team"))
        until(lambda: _gpus(world, "department") == 8, "so does its parent", lambda: world.status("department"))
        until(lambda: world.status("department").get("childQueues") == ["team"], "the parent lists it")
        until(lambda: float(_of(world, "team", "requested")) == 8, "requested", lambda: world.status("team"))
    finally:
        _remove_queues(world, "team", "department")


@_case
def a_queue_at_its_limit_lets_no_more_in_and_says_so(world: World) -> None:
    world.queue("top")
    world.queue("small", "top", gpus=2, limit=2)
    try:
        world.job("within", 2, 1, "small", "build")
        _until_running(world, "within", 2)
        world.job("beyond", 1, 1, "small", "build")
        _none_starts(world, "beyond")
        until(lambda: all(map(_conditions, world.groups("beyond"))), "it says why it waits")
        (group,) = world.groups("beyond")
        (condition,) = _conditions(group)
        assert condition["type"] == "UnschedulableOnNodePool", condition
        assert any("limit" in reason["message"].lower() for reason in condition["reasons"]), condition
    finally:
        _remove_queues(world, "small", "top")


@_case
def a_queue_takes_back_what_it_deserves(world: World) -> None:
    total = NODES * NODE_GPUS
    world.queue("company")
    for name in ("greedy", "patient"):
        world.queue(name, "company", gpus=total / 2)
    try:
        world.job("borrower", total, 1, "greedy", "train")
        _until_running(world, "borrower", total)
        world.job("owner", 4, 1, "patient", "train")
        _until_running(world, "owner", 4)
        # The Job makes its stopped pods again, and they wait.
        until(lambda: len(world.running("borrower")) == total - 4, "no more than four are stopped")
    finally:
        _remove_queues(world, "greedy", "patient", "company")


@_case
def a_more_important_job_takes_the_place_of_another_in_its_queue(world: World) -> None:
    total = NODES * NODE_GPUS
    world.job("ordinary", total // NODE_GPUS, NODE_GPUS, "", "train")
    _until_running(world, "ordinary", NODES)
    world.job("urgent", 1, NODE_GPUS, "", "build")
    _until_running(world, "urgent", 1)
    until(lambda: len(world.running("ordinary")) == NODES - 1, "one is stopped", lambda: world.running("ordinary"))


@_case
def the_status_of_a_group_has_what_its_pods_hold(world: World) -> None:
    _pytorch_job(world, "shown", 1, 2)
    _until_running(world, "shown", 2)

    def holds() -> bool:
        (group,) = world.groups("shown")
        allocated = group.get("status", {}).get("resourcesStatus", {}).get("allocated", {})
        return float(allocated.get(GPU, 0)) == 4

    until(holds, "allocated is four GPUs", lambda: world.groups("shown")[0].get("status"))


def _of(world: World, queue: str, field: str) -> str:
    value: str = (world.status(queue).get(field) or {}).get(GPU, "0")
    return value


def _gpus(world: World, queue: str) -> float:
    return float(_of(world, queue, "allocated"))


def _remove_queues(world: World, *names: str) -> None:
    world.clear()
    for name in names:
        world.api.delete(f"/apis/scheduling.run.ai/v2/queues/{name}")
