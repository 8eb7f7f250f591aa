"""Names of what is asked about: found in a cluster, or answered with the nearest names."""

from collections.abc import Collection
from difflib import get_close_matches

from tonnage.cluster.cluster import Cluster
from tonnage.explain.record import ExplainedKind
from tonnage.model.excerpt import excerpt

_MOST_NEAR = 3


class UnknownNameError(LookupError):
    """Nothing has that name."""

    def __init__(self, kind: ExplainedKind, name: str, known: Collection[str], where: str = "", key: str = "") -> None:
        self.near = _nearest_keys(key, known) if key else get_close_matches(name, sorted(known), _MOST_NEAR)
        hint = f"; did you mean {' or '.join(excerpt(one) for one in self.near)}?" if self.near else ""
        if not known:
            hint = f"; there is no {kind} at all"
        super().__init__(f"there is no {kind} {excerpt(name)}{where}{hint}")


def _nearest_keys(key: str, known: Collection[str]) -> list[str]:
    """The nearest of names with namespaces: by name alone, and of equal names those of the same namespace first."""
    namespace, _, name = key.rpartition("/")
    by_name: dict[str, list[str]] = {}
    for one in sorted(known, key=lambda other: (not other.startswith(f"{namespace}/"), other)):
        by_name.setdefault(one.rpartition("/")[2], []).append(one)
    near = get_close_matches(name, list(by_name), _MOST_NEAR)
    return [one for short in near for one in by_name[short]][:_MOST_NEAR]


def pod_key(cluster: Cluster, namespace: str, name: str) -> str:
    """The key of a pod; the name may have its namespace in front."""
    known = {*cluster.waiting, *cluster.reserved, *cluster.running}
    return _namespaced(ExplainedKind.POD, namespace, name, known)


def job_key(cluster: Cluster, namespace: str, name: str) -> str:
    """The key of a job: a group, or a pod that is its own job."""
    tasks = (*cluster.waiting.values(), *cluster.running.values())
    known = {*cluster.groups.jobs, *(cluster.groups.job_of(task).key for task in tasks)}
    return _namespaced(ExplainedKind.JOB, namespace, name, known)


def _namespaced(kind: ExplainedKind, namespace: str, name: str, known: Collection[str]) -> str:
    key = name if "/" in name else f"{namespace}/{name}"
    if key not in known:
        where = "" if "/" in name else f" in namespace {excerpt(namespace)}"
        raise UnknownNameError(kind, name, known, where, key)
    return key


def queue_name(cluster: Cluster, name: str) -> str:
    """The name of a queue."""
    if name not in cluster.queues:
        raise UnknownNameError(ExplainedKind.QUEUE, name, cluster.queues)
    return name


def node_name(cluster: Cluster, name: str) -> str:
    """The name of a node."""
    if name not in cluster.nodes:
        raise UnknownNameError(ExplainedKind.NODE, name, cluster.nodes)
    return name


def card_place(cluster: Cluster, name: str) -> tuple[str, str]:
    """The node and the UUID of a card; a card may also be named as NODE/INDEX."""
    nodes = sorted(cluster.rows.cards.get(name, ()))
    if nodes:
        return nodes[0], name
    node, _, index = name.rpartition("/")
    state = cluster.nodes.get(node)
    if state is not None and index.isdecimal() and len(index) < 6 and int(index) < len(state.devices):
        return node, state.devices[int(index)].uuid
    raise UnknownNameError(ExplainedKind.GPU, name, cluster.rows.cards.keys())
