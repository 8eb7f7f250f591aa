"""Allocation measurements: the allocate action on jobs in queues, with KAI's plugins and KAI's benchmark shapes."""

import gc
import time
from collections.abc import Callable

from tests.config.texts import KAI_DEFAULT
from tests.groups import add, kai_group, kai_queue
from tonnage.actions.allocate import Allocate
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP
from tonnage.config.load import load_text
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.group import KaiQueue
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeStatus
from tonnage.model.pod import Container, Pod, PodSpec, ReportedPodStatus, ResourceRequirements

GPUS = 8


def jobs_cluster(nodes: int, jobs: int, pods: int = 1, queues: int = 4, parents: int = 2) -> Cluster:
    """Nodes of eight GPUs and pending gangs of `pods` one-GPU pods, spread over the queues."""
    cluster = plain_nodes(nodes)
    quota = nodes * GPUS / queues
    for number in range(parents):
        add(cluster, team_queue(f"department-{number}", quota * queues / parents))
    for number in range(queues):
        add(cluster, team_queue(f"team-{number}", quota, f"department-{number % parents}"))
    for number in range(jobs):
        name, created = f"job-{number:05d}", moment(number)
        add(cluster, kai_group(name, pods, created=created, queue=f"team-{number % queues}"))
        for member in range(pods):
            cluster.upsert_pod(job_pod(f"{name}-{member}", name, created))
    cluster.settle()
    return cluster


def plain_nodes(count: int) -> Cluster:
    """Nodes of eight whole GPUs without device annotations."""
    cluster = Cluster(default_vendors())
    for number in range(count):
        name = f"node-{number:05d}"
        offers: dict[str, str | int | float] = {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": GPUS}
        cluster.upsert_node(Node(ObjectMeta(name=name), status=NodeStatus(allocatable=offers)))
    return cluster


def moment(number: int) -> str:
    """A timestamp `number` seconds into a day."""
    return f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"


def team_queue(name: str, gpus: float, parent: str | None = None) -> KaiQueue:
    """A KAI queue with a quota of `gpus`."""
    free = {"quota": -1, "limit": -1}
    shares = {"gpu": {"quota": gpus, "limit": -1, "overQuotaWeight": 1}, "cpu": free, "memory": free}
    return kai_queue(name, parentQueue=parent, resources=shares)


def job_pod(name: str, group: str, created: str, gpus: int = 1, on: str | None = None) -> Pod:
    """A pod of a PodGroup, running if it has a node."""
    limits: dict[str, str | int | float] = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": gpus}
    metadata = ObjectMeta(name=name, namespace="default", annotations={KAI_GROUP: group}, creationTimestamp=created)
    container = Container("main", ResourceRequirements(limits=limits))
    return Pod(
        metadata, PodSpec(containers=[container], nodeName=on), ReportedPodStatus(phase="Running" if on else "Pending")
    )


def seconds_to_allocate(make: Callable[[], Cluster], runs: int = 5) -> float:
    """CPU time of opening a session and allocating all pending jobs, the fastest."""
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
        assert placed == min(waiting, len(cluster.nodes) * GPUS), "allocate left pods pending although GPUs are free"
    return min(spent)
