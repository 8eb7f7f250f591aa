"""Words for scenarios: a cluster, its pods, and what is decided about them.

cluster = scenario(node("a", gpus=2, gpu_memory=8000), running("x", on="a", gpu=0, memory=2000))
decision = place(cluster, pod("p", gpus=1, memory=1000), gpu_policy="binpack")
assert cards(decision) == ["a/0"]
"""

import json
from collections.abc import Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeSpec, NodeStatus
from tonnage.model.pod import (
    Container,
    ContainerEnd,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    ReportedPodStatus,
    ResourceRequirements,
)
from tonnage.model.selection import Affinity, Taint, Toleration
from tonnage.plugins.defaults import default_plugins

REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"


def gpu(
    uuid: str,
    *,
    index: int = 0,
    count: int = 10,
    memory: int = 8000,
    cores: int = 100,
    type: str = "NVIDIA A100-SXM4-40GB",
    numa: int = 0,
    healthy: bool = True,
    **more: object,
) -> dict[str, object]:
    """One element of a node's register annotation."""
    return {
        "id": uuid,
        "index": index,
        "count": count,
        "devmem": memory,
        "devcore": cores,
        "type": type,
        "numa": numa,
        "health": healthy,
        **more,
    }


def node(
    name: str,
    *,
    gpus: int | Sequence[dict[str, object]] = 0,
    gpu_memory: int = 8000,
    slots: int = 10,
    numas: Sequence[int] | None = None,
    labels: dict[str, str] | None = None,
    taints: list[Taint] | None = None,
    unschedulable: bool = False,
    annotations: dict[str, str] | None = None,
    capacity: dict[str, str | int | float] | None = None,
    **allocatable: str | int,
) -> Node:
    """A node; its cards are called `<node>/0`, `<node>/1`, and so on."""
    if isinstance(gpus, int):
        gpus = [
            gpu(f"{name}/{i}", index=i, count=slots, memory=gpu_memory, numa=numas[i] if numas else 0)
            for i in range(gpus)
        ]
    notes = dict(annotations or {})
    if gpus:
        notes.setdefault(REGISTER, json.dumps(list(gpus)))
    offers: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    offers |= {key.replace("__", "/").replace("_", "-"): value for key, value in allocatable.items()}
    return Node(
        ObjectMeta(name=name, labels=labels, annotations=notes),
        NodeSpec(unschedulable=unschedulable, taints=taints),
        NodeStatus(capacity, offers),
    )


def plain(
    name: str, gpus: int, *, gpu_memory: int | None = None, gpu_type: str | None = None, **allocatable: str | int
) -> Node:
    """A node that offers GPUs and registers none, as NVIDIA's own device plugin leaves it."""
    told = {"nvidia.com/gpu.memory": gpu_memory, "nvidia.com/gpu.product": gpu_type}
    labels = {key: str(value) for key, value in told.items() if value is not None}
    bare = node(name, labels=labels, **allocatable)  # type: ignore[arg-type]
    assert bare.status.allocatable is not None
    bare.status.allocatable["nvidia.com/gpu"] = str(gpus)
    return bare


def limits(
    gpus: int | None = None,
    memory: int | str | None = None,
    percentage: int | None = None,
    cores: int | None = None,
    **others: str | int,
) -> dict[str, str | int | float]:
    """A container's limits in NVIDIA's names."""
    named = {
        "nvidia.com/gpu": gpus,
        "nvidia.com/gpumem": memory,
        "nvidia.com/gpumem-percentage": percentage,
        "nvidia.com/gpucores": cores,
    }
    result: dict[str, str | int | float] = {key: value for key, value in named.items() if value is not None}
    return result | dict(others)


def container(name: str = "main", *, sidecar: bool = False, **wants: int | str | None) -> Container:
    """A container that asks for what `limits` takes."""
    return Container(
        name,
        ResourceRequirements(limits=limits(**wants)),  # type: ignore[arg-type]
        restartPolicy="Always" if sidecar else None,
    )


def pod(
    name: str,
    gpus: int | None = None,
    *,
    containers: list[Container] | None = None,
    init: list[Container] | None = None,
    on: str | None = None,
    annotations: dict[str, str] | None = None,
    selector: dict[str, str] | None = None,
    affinity: Affinity | None = None,
    tolerations: list[Toleration] | None = None,
    priority: int | None = None,
    created: str | None = None,
    phase: str | None = None,
    terminating: bool = False,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    nominated: str | None = None,
    started: str | None = None,
    scheduler: str | None = None,
    ended: Sequence[str] = (),
    **wants: int | str | None,
) -> Pod:
    """A pod of one container that asks for what `limits` takes, unless its containers are given.

    `ended` names the init containers that have ended with success.
    """
    return Pod(
        ObjectMeta(
            name=name,
            namespace=namespace,
            labels=labels,
            annotations=annotations,
            creationTimestamp=created,
            deletionTimestamp="2026-01-01T00:00:00Z" if terminating else None,
        ),
        PodSpec(
            containers=containers or [container(gpus=gpus, **wants)],
            initContainers=init,
            nodeName=on,
            nodeSelector=selector,
            affinity=affinity,
            tolerations=tolerations,
            priority=priority,
            schedulerName=scheduler,
        ),
        ReportedPodStatus(
            phase=phase or ("Running" if on else "Pending"),
            nominatedNodeName=nominated,
            startTime=started,
            initContainerStatuses=[ContainerStatus(one, ContainerState(ContainerEnd())) for one in ended] or None,
        ),
    )


def part(
    name: str,
    fraction: float | str | None = None,
    *,
    memory: int | str | None = None,
    on: str | None = None,
    group: str | list[str] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **more: object,
) -> Pod:
    """A pod that asks for a part of a card as KAI's users do; one that runs shares the card of its group."""
    asked = {"gpu-fraction": fraction, "gpu-memory": memory}
    notes = {key: str(value) for key, value in asked.items() if value is not None}
    several = group if isinstance(group, list) else []
    shares = {f"runai-gpu-group/{one}": one for one in several} or ({"runai-gpu-group": group} if group else {})
    labels = {**(labels or {}), **shares}
    return pod(name, on=on, annotations=notes | (annotations or {}), labels=labels, **more)  # type: ignore[arg-type]


def running(
    name: str,
    *,
    on: str,
    gpu: int | str | Sequence[int] = 0,
    memory: int = 0,
    cores: int = 0,
    terminating: bool = False,
    phase: str = "Running",
    namespace: str = "default",
) -> Pod:
    """A pod that runs and holds that much of each of its node's cards."""
    which = [gpu] if isinstance(gpu, int | str) else list(gpu)
    uuids = [g if isinstance(g, str) else f"{on}/{g}" for g in which]
    text = "".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid in uuids) + ";"
    return pod(
        name, len(uuids), on=on, annotations={ALLOCATED: text}, phase=phase, terminating=terminating, memory=memory,
        namespace=namespace,
    )  # fmt: skip


def scenario(*objects: Node | Pod) -> Cluster:
    """A cluster that these nodes and pods were added to, in this order."""
    cluster = Cluster(default_vendors())
    for thing in objects:
        if isinstance(thing, Node):
            cluster.upsert_node(thing)
        else:
            cluster.upsert_pod(thing)
    return cluster


def session(
    cluster: Cluster, *, node_policy: str = "binpack", gpu_policy: str = "spread", numa_order: str = "tie"
) -> Session:
    """A session with HAMi's policies."""
    return Session(cluster, default_plugins(node_policy, gpu_policy, numa_order))


def place(cluster: Cluster, wanted: Pod, **policies: str) -> Decision:
    """Decide about one pod and hold the placement."""
    with session(cluster, **policies) as open_session:
        return open_session.place(make_task(wanted, cluster.vendors))


def cards(decision: Decision) -> list[str]:
    """UUIDs of the cards that a pod was given, in the order of its containers."""
    return [device.uuid for device in decision.devices]


def decide(cluster: Cluster, wanted: Pod, **policies: str) -> Decision:
    """Decide about one pod and hold nothing."""
    with session(cluster, **policies) as open_session:
        return open_session.decide(make_task(wanted, cluster.vendors))


def reasons(decision: Decision) -> dict[str, int]:
    """How many nodes were turned down for each reason."""
    return {rejection.reason: rejection.count for rejection in decision.rejected}


def problems(cluster: Cluster) -> list[tuple[str, str]]:
    """Which objects have a problem, and with what."""
    return [(problem.object, problem.field) for problem in cluster.problems()]


def usage(cluster: Cluster, name: str) -> list[tuple[int, int, int]]:
    """Slots, memory and cores in use on each card of a node."""
    state = cluster.nodes[name]
    used = cluster.columns.card_total[:, :, state.row] - cluster.columns.card_free[:, :, state.row]
    return [tuple(used[(SLOTS, MEMORY, CORES), position].tolist()) for position in range(len(state.devices))]
