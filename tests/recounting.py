"""A recount: the cluster compared with one that is made of the same objects from scratch."""

from tonnage.cluster.cluster import Cluster
from tonnage.kube.compare import compare

_COUNTED = ("Node/", "Pod/", "Namespace/", "Cluster")


def differences(cluster: Cluster) -> list[str]:
    """Nodes, pods and quotas that do not count as their objects say; reservations count as they are."""
    fresh = Cluster(cluster.vendors)
    for state in cluster.nodes.values():
        fresh.upsert_node(state.node)
    for task in (*cluster.running.values(), *cluster.waiting.values()):
        fresh.upsert_pod(task.pod)
    return [str(one) for one in compare(cluster, fresh) if one.object.startswith(_COUNTED)]
