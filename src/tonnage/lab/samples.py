"""Sample workloads of the lab: objects that fit the size of its cluster and show one thing each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tonnage.lab.api import Api, pods_path
from tonnage.lab.definitions import VOLCANO
from tonnage.lab.podstatus import RUN_SECONDS

Manifest = dict[str, Any]
GPU, GPU_MEMORY, GPU_CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
QUEUES_CONFIG = Path(__file__).with_name("queues-config.yaml")
_NAMESPACE = "default"
_RUN = "30"
"""Seconds for which pods run that end."""


class SampleWorkload(NamedTuple):
    """A sample workload."""

    shows: str
    objects: Callable[[int, int], list[Manifest]]
    """Its objects on that many nodes that take any pod, with that many GPUs each."""
    is_batch: bool
    """Whether only the batch scheduler can show it."""
    config: Path | None = None
    """The configuration that the batch scheduler needs for it, if not the default."""


def _sharing(nodes: int, gpus: int) -> list[Manifest]:
    """Small pods, as many as there are GPUs and a dozen at most of each kind; together they need less than all."""
    cards = nodes * gpus
    kinds = (("notebook", 12, 1, 10, 4000), ("inference", 8, 2, 30, 8000), ("batch", 4, 4, 50, 8000))
    made = []
    for name, most, cards_each, cores, memory in kinds:
        for number in range(max(1, min(most, cards // cards_each))):
            limits = {GPU: 1, GPU_MEMORY: memory, GPU_CORES: cores}
            made.append(_pod(f"{name}-{number}", limits, ends=name == "batch"))
    return made


def _gangs(nodes: int, gpus: int) -> list[Manifest]:
    """Four gangs of pods that take a whole node each; three of them fill the cluster."""
    made: list[Manifest] = []
    members = max(1, nodes // 3)
    for name in ("train-a", "train-b", "train-c", "train-d"):
        made.append(_volcano("PodGroup", name, {"minMember": members}, _NAMESPACE))
        notes = {"scheduling.k8s.io/group-name": name}
        made += [_pod(f"{name}-{number}", {GPU: gpus}, notes, ends=True) for number in range(members)]
    return made


def _queues(nodes: int, gpus: int) -> list[Manifest]:
    """Two queues whose pods would each fill the cluster alone."""
    made: list[Manifest] = []
    size = max(1, gpus // 2)
    for queue, weight in (("research", 2), ("serving", 1)):
        made.append(_volcano("Queue", queue, {"weight": weight}))
        notes = {"scheduling.volcano.sh/queue-name": queue}
        made += [_pod(f"{queue}-{number}", {GPU: size}, notes, ends=True) for number in range(nodes * (gpus // size))]
    return made


SAMPLES = {
    "gangs": SampleWorkload(
        "four gangs, of which three fit at once; the fourth starts whole when one ends", _gangs, True
    ),
    "sharing": SampleWorkload("small pods that share GPUs, packed on few nodes", _sharing, False),
    "queues": SampleWorkload(
        "two queues that share the GPUs 2 to 1 while both have pods", _queues, True, QUEUES_CONFIG
    ),
}


def create_sample(api: Api, sample: SampleWorkload, nodes: int, gpus: int, scheduler: str) -> int:
    """Create a sample's objects, with pods for the scheduler of that name; the number of pods."""
    objects = sample.objects(nodes, gpus)
    for made in objects:
        if made["kind"] == "Pod":
            made["spec"]["schedulerName"] = scheduler
        api.create(_path(made), made)
    return sum(made["kind"] == "Pod" for made in objects)


def _pod(name: str, limits: dict[str, int], notes: dict[str, str] | None = None, *, ends: bool) -> Manifest:
    annotations = {**(notes or {}), **({RUN_SECONDS: _RUN} if ends else {})}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {key: str(n) for key, n in limits.items()}}
    container = {"name": "main", "image": "practice", "resources": resources}
    spec = {"containers": [container], "restartPolicy": "Never" if ends else "Always"}
    meta = {"name": name, "namespace": _NAMESPACE, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _volcano(kind: str, name: str, spec: dict[str, Any], namespace: str | None = None) -> Manifest:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": VOLCANO.removeprefix("/apis/"), "kind": kind, "metadata": meta, "spec": spec}


def _path(made: Manifest) -> str:
    """Where an object is created."""
    namespace = made["metadata"].get("namespace")
    if made["kind"] == "Pod":
        return pods_path(namespace)
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{made['apiVersion']}{within}/{made['kind'].lower()}s"
