"""Nodes and pods as Kubernetes objects, made from figures: what every simulated cluster is built of.

Nodes register their cards the way HAMi's device plugin does, so that a simulated cluster goes through the same doors
as a real one.
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
"""When virtual time begins."""
Amounts = dict[str, str | int | float]


def timestamp(time: float) -> str:
    """A virtual time as Kubernetes writes times."""
    # Cutting the offset off is much faster than having a format read.
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
    """What a pod of one container asks for; of processors and memory it is promised as much as it may use."""
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
    """A pod that waits."""
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
    """What each of several pods of one owner says so that they start together."""
    return {MIN_MEMBERS: str(size)}


def queue_annotations(queue: str) -> dict[str, str]:
    """What a pod says to wait in a queue."""
    return {QUEUE: queue}
