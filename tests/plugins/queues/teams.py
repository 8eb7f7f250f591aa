"""Words for scenarios of queues: teams of KAI's, groups of Volcano's and their pods."""

from tests.groups import add, group, kai_queue, member, queue
from tests.scenario import pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.model.pod import Container, Pod, ResourceRequirements

FREE = {"quota": -1, "limit": -1}


def team(name: str, quota: float = 0, limit: float = -1, weight: float = 1, **spec: object):
    """A queue of KAI's that shares cards."""
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    return kai_queue(name, resources={"gpu": gpu, "cpu": FREE, "memory": FREE}, **spec)


def job(name: str, of: str, gpus: int | None = 1, **more: object) -> Pod:
    """A pod that is a job of its own, in a queue."""
    return pod(name, gpus, annotations={"tonnage.io/queue": of}, **more)


def small(name: str, of: str, cpu: int | None = None, memory: int | None = None, **more: object) -> Pod:
    """A pod of one of Volcano's groups that asks for CPUs and GB."""
    asks: dict[str, str | int | float] = {"cpu": cpu} if cpu else {}
    asks |= {"memory": f"{memory}G"} if memory else {}
    return member(name, of, containers=[Container("main", ResourceRequirements(limits=asks))], **more)


def shares(outcome, name: str, resource: str) -> tuple[str, str, str, str]:
    (record,) = (one for one in outcome.document.queues if one.name == name)
    share = record.resources[resource]
    return share.deserved, share.fair_share, share.allocated, share.borrowed


def volcano(*nodes_and_pods: object, **queues: dict[str, object]) -> Cluster:
    """Queues of those names, each with a group of the same name."""
    cluster = scenario(*nodes_and_pods)  # type: ignore[arg-type]
    for name, spec in queues.items():
        add(cluster, queue(name, **spec), group(name, queue=name))
    return cluster
