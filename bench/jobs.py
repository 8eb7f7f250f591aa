"""Jobs in queues: opening a session with KAI's plugins and placing all that waits, in shapes that KAI measures too."""

import gc
import time
from collections.abc import Callable

from tests.groups import add, kai_group, kai_queue
from tests.settings.texts import KAI_DEFAULT
from tonnage.actions.allocate import Allocate
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.group import KAI_GROUP
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeStatus
from tonnage.model.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from tonnage.settings.load import load_text

GPUS = 8


def jobs_cluster(nodes: int, jobs: int, pods: int = 1, queues: int = 4, parents: int = 2) -> Cluster:
    """Plain nodes of eight GPUs; jobs of as many pods as must start together, each pod for one GPU."""
    cluster = Cluster(default_vendors())
    for number in range(nodes):
        name = f"node-{number:05d}"
        offers: dict[str, str | int | float] = {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": GPUS}
        cluster.upsert_node(Node(ObjectMeta(name=name), status=NodeStatus(allocatable=offers)))
    quota = nodes * GPUS / queues
    for number in range(parents):
        add(cluster, kai_queue(f"department-{number}", resources=_shares(quota * queues / parents)))
    for number in range(queues):
        parent = f"department-{number % parents}"
        add(cluster, kai_queue(f"team-{number}", parentQueue=parent, resources=_shares(quota)))
    for number in range(jobs):
        name = f"job-{number:05d}"
        created = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        add(cluster, kai_group(name, pods, created=created, queue=f"team-{number % queues}"))
        for member in range(pods):
            cluster.upsert_pod(_pod(f"{name}-{member}", name, created))
    cluster.settle()
    return cluster


def _shares(gpus: float) -> dict[str, dict[str, float]]:
    free = {"quota": -1, "limit": -1}
    return {"gpu": {"quota": gpus, "limit": -1, "overQuotaWeight": 1}, "cpu": free, "memory": free}


def _pod(name: str, group: str, created: str) -> Pod:
    limits: dict[str, str | int | float] = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": 1}
    metadata = ObjectMeta(name=name, namespace="default", annotations={KAI_GROUP: group}, creationTimestamp=created)
    container = Container("main", ResourceRequirements(limits=limits))
    return Pod(metadata, PodSpec(containers=[container]), PodStatus(phase="Pending"))


def seconds_to_allocate(make: Callable[[], Cluster], runs: int = 5) -> float:
    """Time of one core for opening a session and placing everything that waits, at its fastest."""
    spent: list[float] = []
    for _ in range(runs):
        cluster, plugins = make(), load_text(KAI_DEFAULT, "KAI").plugins
        waiting = len(cluster.waiting)
        gc.collect()
        gc.freeze()
        start = time.process_time()
        with Session(cluster, plugins) as session:
            Allocate().run(session)
            spent.append(time.process_time() - start)
        gc.unfreeze()
        placed = sum(decision.node is not None for decision in session.decisions.values())
        assert placed == min(waiting, len(cluster.nodes) * GPUS), "not everything that has room was placed"
    return min(spent)
