"""Clusters and pods for the benchmarks: one vendor, eight cards per node, pods of mixed shapes."""

import json
import random
from collections.abc import Iterator

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.model.annotations import AGENT
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeStatus
from tonnage.model.pod import Container, Pod, PodSpec, ReportedPodStatus, ResourceRequirements
from tonnage.model.selection import Affinity, LabelSelector, PodAffinity, PodAffinityTerm

GPUS = 8
CARD_MEMORY = 81920
PODS_ON_CARD = 8
ALLOCATED = "hami.io/vgpu-devices-allocated"

SHAPES = [(1, memory, cores) for memory in (1024, 2048, 4096, 8192, 16384) for cores in (5, 10, 20)]
SHAPES += [(1, 40960, 50), (1, 0, 0), (1, 0, 100), (2, 0, 100), (2, 8192, 20)]
"""Cards, MiB per card (0 for the whole card) and percent of compute."""
NEVER_SEEN = 0.05
"""Share of pods with a shape of their own."""


def bench_node(number: int, has_agent: bool = False) -> Node:
    """A node with eight 80 GB cards, which an agent serves or HAMi's device plugin."""
    name = f"node-{number:05d}"
    cards = [
        {
            "id": f"GPU-{number:05d}-{card}",
            "index": card,
            "count": 10,
            "devmem": CARD_MEMORY,
            "devcore": 100,
            "type": "NVIDIA A100-SXM4-80GB",
            "numa": card // (GPUS // 2),
            "health": True,
        }
        for card in range(GPUS)
    ]
    return Node(
        ObjectMeta(
            name=name,
            labels={"kubernetes.io/hostname": name, "pool": f"pool-{number % 4}"},
            annotations={
                "hami.io/node-nvidia-register": json.dumps(cards),
                **({AGENT: "0.1.0,boot"} if has_agent else {}),
            },
        ),
        status=NodeStatus(allocatable={"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": GPUS * 10}),
    )


def bench_pod(name: str, cards: int, memory: int, cores: int) -> Pod:
    """A pending pod with one container."""
    limits: dict[str, str | int | float] = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": cards}
    if memory:
        limits["nvidia.com/gpumem"] = memory
    if cores:
        limits["nvidia.com/gpucores"] = cores
    container = Container("main", ResourceRequirements(limits=limits))
    return Pod(
        ObjectMeta(name=name, namespace="bench"), PodSpec(containers=[container]), ReportedPodStatus(phase="Pending")
    )


def of_scheduler(pod: Pod, name: str) -> Pod:
    """The pod, for a scheduler of that name."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, schedulerName=name))


def anti_affine_pod(number: int, topology: str = "kubernetes.io/hostname") -> Pod:
    """A pending pod with required anti-affinity to its own labels in a topology."""
    plain = bench_pod(f"apart-{number}", 1, 1024, 5)
    term = PodAffinityTerm(topology, LabelSelector({"app": "apart"}))
    return Pod(
        ObjectMeta(name=plain.metadata.name, namespace="bench", labels={"app": "apart"}),
        PodSpec(containers=plain.spec.containers, affinity=Affinity(podAntiAffinity=PodAffinity([term]))),
        plain.status,
    )


def running_pod(number: int, nodes: int) -> Pod:
    """A running pod on 5 % of a card; pods go round robin over the nodes and fill the first cards first."""
    node, card = number % nodes, number // nodes // PODS_ON_CARD
    waiting = bench_pod(f"running-{number}", 1, 4096, 5)
    return Pod(
        ObjectMeta(
            name=waiting.metadata.name,
            namespace="bench",
            annotations={ALLOCATED: f"GPU-{node:05d}-{card},NVIDIA,4096,5:;"},
        ),
        PodSpec(containers=waiting.spec.containers, nodeName=f"node-{node:05d}"),
        ReportedPodStatus(phase="Running"),
    )


def bench_cluster(nodes: int, running: int) -> Cluster:
    """A cluster of `nodes` nodes with `running` pods."""
    cluster = Cluster(default_vendors())
    for number in range(nodes):
        cluster.upsert_node(bench_node(number))
    for number in range(running):
        cluster.upsert_pod(running_pod(number, nodes))
    cluster.settle()
    return cluster


def mixed_pods(count: int, seed: int = 0) -> Iterator[Pod]:
    """Pending pods of the usual shapes; one in twenty has a shape of its own."""
    rng = random.Random(seed)
    for number in range(count):
        if rng.random() < NEVER_SEEN:
            shape = (1, rng.randrange(500, 30000), rng.randrange(1, 40))
        else:
            shape = rng.choice(SHAPES)
        yield bench_pod(f"pod-{number}", *shape)
