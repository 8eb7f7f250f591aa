"""The life of a pod with cards of any vendor: placed, handed over to the device plugin, and read back as running."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tests.scenario import cards, place, usage
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import containers_of
from tonnage.devices.base import Handover
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeSpec, NodeStatus
from tonnage.model.pod import Container, Pod, PodSpec, ReportedPodStatus, ResourceRequirements

SECOND = 1_700_000_000
NANOSECONDS = "1700000000000000000"


class Life(NamedTuple):
    """What became of a pod: its cards, and what was written for the device plugin."""

    cards: list[str]
    written: dict[str, str]
    reasons: dict[str, int]


def machine(
    name: str = "n",
    *,
    annotations: dict[str, str] | None = None,
    capacity: dict[str, str | int | float] | None = None,
    labels: dict[str, str] | None = None,
) -> Node:
    """A node with room for everything but cards."""
    offers: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110", **(capacity or {})}
    return Node(ObjectMeta(name, annotations=annotations, labels=labels), NodeSpec(), NodeStatus(offers, offers))


def asking(
    name: str,
    *limits: dict[str, str | int | float],
    annotations: dict[str, str] | None = None,
    init: Sequence[dict[str, str | int | float]] = (),
) -> Pod:
    """A pod with a container for each of the limits, called c0, c1 and so on, and init containers i0, i1 and so on."""
    first, containers = (
        [Container(f"{letter}{number}", ResourceRequirements(limits=asked)) for number, asked in enumerate(each)]
        for letter, each in (("i", init), ("c", limits))
    )
    spec = PodSpec(containers, first or None)
    return Pod(ObjectMeta(name, "default", annotations=annotations), spec, ReportedPodStatus("Pending"))


def live(cluster: Cluster, pod: Pod, **policies: str) -> Life:
    """Place a pod, write what its plugin reads, and check that the running pod means the same as the placement."""
    decision = place(cluster, pod, **policies)
    reasons = {rejection.reason: rejection.count for rejection in decision.rejected}
    if decision.node is None:
        return Life([], {}, reasons)
    state = cluster.nodes[decision.node]
    handover = Handover(
        node=state.name,
        devices={device.uuid: device for device in state.devices},
        containers=tuple(container for container, _ in containers_of(pod)),
        now=SECOND,
    )
    written: dict[str, str] = {}
    for number, uses in decision.grant:
        written |= cluster.vendors[number].encode_pod(uses, handover)
    held = usage(cluster, state.name)
    bound = replace(
        pod,
        metadata=replace(pod.metadata, annotations={**pod.annotations, **written}),
        spec=replace(pod.spec, nodeName=state.name),
        status=ReportedPodStatus("Running"),
    )
    cluster.upsert_pod(bound)
    assert usage(cluster, state.name) == held
    assert not list(cluster.problems())
    return Life(cards(decision), written, reasons)
