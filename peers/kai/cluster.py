"""KAI's controllers on a control plane, with its scheduler and binder or with ours."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peers.cases import until
from peers.cluster import Cluster, access, manifests, node
from tests.config.texts import KAI_DEFAULT
from tonnage.lab.control_plane import PATIENCE
from tonnage.lab.program import HOST, answers, free_ports

SCHEDULER_NAME = "kai-scheduler"
DEFAULT_QUEUE = "default-queue"
QUEUE_LABEL = "kai.scheduler/queue"
GPU = "nvidia.com/gpu"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
PODS = "/api/v1/namespaces/default/pods"
NODES = 4
NODE_GPUS = 8
_PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
_OWNERS = {
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
}
_PATH_OF_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class World:
    """Everything together, with words for cases."""

    def __init__(self, cluster: Cluster) -> None:
        self.api = cluster.api
        self.cluster = cluster

    def owner(self, kind: str, name: str, spec: dict[str, Any], queue: str = "") -> dict[str, Any]:
        """Create an object whose operator is not there; the caller creates its pods."""
        group, version, plural = _OWNERS[kind]
        labels = {QUEUE_LABEL: queue} if queue else {}
        body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name, "labels": labels}}
        made: dict[str, Any] = self.api.create(
            f"/apis/{group}/{version}/namespaces/default/{plural}", {**body, "spec": spec}
        )
        return made

    def job(self, name: str, count: int, gpus: int, queue: str = "", priority: str = "") -> None:
        """A Kubernetes Job whose pods the controller manager creates."""
        template = {"metadata": {"labels": _labels(queue)}, "spec": pod_spec(gpus, priority)}
        meta = {"name": name, "labels": _labels(queue)}
        spec = {"parallelism": count, "completions": count, "template": template}
        path = "/apis/batch/v1/namespaces/default/jobs"
        self.api.create(path, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})

    def pods_of(
        self, owner: dict[str, Any], names: Sequence[str], gpus: int, labels: Mapping[str, str], pause: float = 0.0
    ) -> None:
        """The pods of an owner, one after the other, as its operator creates them."""
        meta = owner["metadata"]
        reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": meta["name"], "uid": meta["uid"]}
        about = {"labels": {**meta.get("labels", {}), **labels}, "ownerReferences": [{**reference, "controller": True}]}
        for name in names:
            self.api.create(PODS, {"metadata": {"name": name, **about}, "spec": pod_spec(gpus)})
            time.sleep(pause)

    def queue(self, name: str, parent: str = "", gpus: float = -1, limit: float = -1) -> None:
        """A queue; -1 is no bound."""
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        resources = {"cpu": free, "memory": free, "gpu": {"quota": gpus, "limit": limit, "overQuotaWeight": 1}}
        spec: dict[str, Any] = {"resources": resources, **({"parentQueue": parent} if parent else {})}
        self.api.create(QUEUES, _object("scheduling.run.ai/v2", "Queue", name, spec=spec))

    def running(self, prefix: str) -> list[str]:
        """The names of pods that run, and begin so."""
        pods = self.api.get(PODS)["items"]
        found = [one["metadata"]["name"] for one in pods if one["status"].get("phase") == "Running"]
        return [name for name in found if name.startswith(prefix)]

    def bound(self, prefix: str) -> list[str]:
        """The names of pods that have a node, and begin so."""
        pods = self.api.get(PODS)["items"]
        return [n for one in pods if "nodeName" in one["spec"] and (n := one["metadata"]["name"]).startswith(prefix)]

    def groups(self, owner: str) -> list[dict[str, Any]]:
        """The PodGroups whose owner has that name."""
        found: list[dict[str, Any]] = self.api.get(GROUPS)["items"]
        return [one for one in found if any(ref["name"] == owner for ref in one["metadata"].get("ownerReferences", ()))]

    def status(self, queue: str) -> dict[str, Any]:
        status: dict[str, Any] = self.api.get(f"{QUEUES}/{queue}").get("status", {})
        return status

    def clear(self) -> None:
        """Remove what a case has left."""
        for path in ("/apis/batch/v1/namespaces/default/jobs", *map(_objects_of, _OWNERS), PODS, GROUPS):
            self.api.request("DELETE", path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
        until(lambda: not self.api.get(PODS)["items"], "pods stay", lambda: self.bound(""))
        until(lambda: not self.api.get(GROUPS)["items"], "groups stay")


def pod_spec(gpus: int, priority: str = "") -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}} if gpus else {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "practice", "resources": resources}
    spec = {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container]}
    return spec | ({"priorityClassName": priority} if priority else {})


@contextmanager
def kai_cluster(folder: Path, programs: Path, is_ours: bool) -> Iterator[World]:
    """KAI's podgrouper, podgroup controller and queue controller beside its scheduler or ours."""
    with Cluster(folder, programs) as cluster:
        for file in sorted((programs / "crds").glob("*.yaml")):
            cluster.apply(manifests(file))
        cluster.apply(_definition(kind) for kind in _OWNERS)
        cluster.apply(access())
        for name, value in _PRIORITIES.items():
            body = _object("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
            cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        cluster.add_nodes(gpu_node(f"gpu-{number}") for number in range(NODES))
        world = World(cluster)
        until(lambda: _is_served(cluster), "KAI's definitions are not served")
        world.queue("default-parent-queue")
        world.queue(DEFAULT_QUEUE, "default-parent-queue")
        configuration = folder / "config.yaml"
        configuration.write_text(KAI_DEFAULT)
        _start_controllers(cluster, programs)
        _start_ours(cluster, configuration) if is_ours else _start_theirs(cluster, programs, configuration)
        yield world


def gpu_node(name: str) -> dict[str, Any]:
    labels = {
        "nvidia.com/gpu.count": str(NODE_GPUS),
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.present": "true",
    }
    made = node(name, 64, "512Gi", labels)
    for size in ("capacity", "allocatable"):
        made["status"][size] = {**made["status"][size], GPU: str(NODE_GPUS)}
    return made


def _start_controllers(cluster: Cluster, programs: Path) -> None:
    metrics, health, group_metrics, group_health, queue_metrics = free_ports(5)
    addresses = {"metrics-bind-address": f"{HOST}:{metrics}", "health-probe-bind-address": f"{HOST}:{health}"}
    cluster.run("podgrouper", programs / "podgrouper", {**addresses, "zap-log-level": "debug"})
    addresses = {
        "metrics-bind-address": f"{HOST}:{group_metrics}",
        "health-probe-bind-address": f"{HOST}:{group_health}",
        "enable-podgroup-webhook": "false",
    }
    cluster.run("podgroupcontroller", programs / "podgroupcontroller", addresses)
    flags = {"metrics-listen-address": f"{HOST}:{queue_metrics}", "enable-webhook": "false"}
    cluster.run("queuecontroller", programs / "queuecontroller", flags)


def _start_theirs(cluster: Cluster, programs: Path, configuration: Path) -> None:
    listen, plugins, metrics, health = free_ports(4)
    flags: dict[str, object] = {
        "scheduler-conf": configuration,
        "listen-address": f"{HOST}:{listen}",
        "plugin-server-port": plugins,
        "v": 4,
    }
    cluster.run("kai-scheduler", programs / "scheduler", flags)
    addresses = {"metrics-bind-address": f"{HOST}:{metrics}", "health-probe-bind-address": f"{HOST}:{health}"}
    cluster.run("binder", programs / "binder", {**addresses, "fake-gpu-nodes": "true"})


def _start_ours(cluster: Cluster, configuration: Path) -> None:
    (port,) = free_ports(1)
    command = [
        *(sys.executable, "-m", "tonnage.cli.main", "scheduler", "--http-bind", f"{HOST}:{port}", "--debug", "true"),
        *("--kubeconfig", str(cluster.plane.kubeconfig_of("tonnage", "tonnage-scheduler"))),
        *("--scheduler-name", SCHEDULER_NAME, "--config", str(configuration), "--leader-elect", "false"),
    ]
    program = cluster.plane.start("tonnage-scheduler", command, cluster.folder / "tonnage-scheduler.log")
    program.wait_until(lambda: answers(port, "/readyz"), "not ready", PATIENCE)


def _definition(kind: str) -> dict[str, Any]:
    """A definition that takes any content, in place of the operator's."""
    group, version, plural = _OWNERS[kind]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
    return _object("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


def _is_served(cluster: Cluster) -> bool:
    definitions = cluster.api.get(_PATH_OF_DEFINITIONS)["items"]
    conditions = [one.get("status", {}).get("conditions") or () for one in definitions]
    return all(any(c["type"] == "Established" and c["status"] == "True" for c in of_one) for of_one in conditions)


def _object(version: str, kind: str, name: str, **more: object) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def _objects_of(kind: str) -> str:
    group, version, plural = _OWNERS[kind]
    return f"/apis/{group}/{version}/namespaces/default/{plural}"


def _labels(queue: str) -> dict[str, str]:
    return {QUEUE_LABEL: queue} if queue else {}
