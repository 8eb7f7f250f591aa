"""Kubernetes objects of simulated clusters: nodes and pods built from numbers.

Nodes register their cards as HAMi's device plugin does, so that the engine reads a simulated cluster like a real one.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from tonnage.model.annotations import MIN_MEMBERS, QUEUE
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.node import Node, NodeSpec, NodeStatus
from tonnage.model.pod import Container, Pod, PodSpec, ReportedPodStatus, ResourceRequirements
from tonnage.model.selection import Taint, Toleration
from tonnage.model.wire import encode

GPU = "nvidia.com/gpu"
GPU_MEMORY = "nvidia.com/gpumem"
GPU_PERCENTAGE = "nvidia.com/gpumem-percentage"
GPU_CORES = "nvidia.com/gpucores"
USE_TYPE = "nvidia.com/use-gputype"
REFUSE_TYPE = "nvidia.com/nouse-gputype"
REGISTER = "hami.io/node-nvidia-register"

EPOCH = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
"""The start of virtual time."""
Amounts = dict[str, str | int | float]


def timestamp(time: float) -> str:
    """A virtual time as a Kubernetes timestamp."""
    # Slicing the offset off is much faster than strftime.
    return (EPOCH + timedelta(seconds=math.floor(time))).isoformat()[:-6] + "Z"


def make_card(uuid: str, index: int, model: str, memory: int, slots: int, numa: int = 0) -> dict[str, object]:
    """A healthy card as a device plugin registers it; memory in MiB."""
    return {
        "id": uuid,
        "index": index,
        "count": slots,
        "devmem": memory,
        "devcore": 100,
        "type": model,
        "numa": numa,
        "mode": "hami-core",
        "health": True,
    }


def make_node(
    name: str,
    offered: Amounts,
    cards: Sequence[Mapping[str, object]],
    *,
    labels: Mapping[str, str] | None = None,
    taint: Taint | None = None,
    uid: str | None = None,
) -> Node:
    """A node that offers resources and registers cards."""
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=uid,
            labels={"kubernetes.io/hostname": name, **(labels or {})},
            annotations={REGISTER: encode(cards).decode()} if cards else None,
            creationTimestamp=timestamp(0.0),
        ),
        spec=NodeSpec(taints=[taint] if taint else None),
        status=NodeStatus(capacity=offered, allocatable=offered),
    )


def make_spec(limits: Amounts, *, priority: int = 0, tolerations: list[Toleration] | None = None) -> PodSpec:
    """The spec of a pod of one container; its CPU and memory requests equal its limits."""
    requests: Amounts = {name: limits[name] for name in ("cpu", "memory") if name in limits}
    return PodSpec(
        containers=[Container(name="main", resources=ResourceRequirements(requests=requests, limits=limits))],
        tolerations=tolerations,
        priority=priority,
    )


def make_pod(
    name: str,
    namespace: str,
    spec: PodSpec,
    *,
    created: float = 0.0,
    uid: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: str | None = None,
) -> Pod:
    """A pending pod."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            labels=labels,
            annotations=annotations,
            creationTimestamp=timestamp(created),
            ownerReferences=[OwnerReference(owner, controller=True)] if owner else None,
        ),
        spec=spec,
        status=ReportedPodStatus(phase="Pending"),
    )


def gang_annotations(size: int) -> dict[str, str]:
    """The annotations of pods of one owner that start together."""
    return {MIN_MEMBERS: str(size)}


def queue_annotations(queue: str) -> dict[str, str]:
    """The annotation that puts a pod into a queue."""
    return {QUEUE: queue}
