"""Host ports: two pods of a node cannot use the same one."""

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.podindex import NodeCounts
from tonnage.cluster.podrules import ANY_ADDRESS, HostPort
from tonnage.cluster.task import Task

REASONS = ("HostPortConflict",)


class HostPorts:
    """Rejects nodes on which a host port of the pod is in use."""

    reasons = REASONS

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        assert task.rules is not None
        placed = self._cluster.placed
        taken: Array | None = None
        for port in task.rules.ports:
            for counts in self._in_the_way(port).values():
                if counts:
                    here = nodes.pick(placed.column(counts)) > np.int64(0)
                    taken = here if taken is None else taken | here
        return None if taken is None else taken.astype(np.uint8)

    def message(self, task: Task, row: int, code: int) -> str:
        assert task.rules is not None
        name = self._cluster.states[row].name
        for port in task.rules.ports:
            for address, counts in self._in_the_way(port).items():
                if name in counts.by_node:
                    user = self._user(name, HostPort(port.protocol, port.port, address))
                    return f"{name}: port {port.port}/{port.protocol} of {address} is in use by {user}"
        return f"{name}: a port that the pod needs is in use"

    def _in_the_way(self, port: HostPort) -> dict[str, NodeCounts]:
        """The users of a port by address; the wildcard address conflicts with every other."""
        by_address = self._cluster.placed.ports.get((port.protocol, port.port), {})
        if port.address == ANY_ADDRESS:
            return by_address
        return {address: counts for address, counts in by_address.items() if address in (port.address, ANY_ADDRESS)}

    def _user(self, node: str, port: HostPort) -> str:
        spots = self._cluster.placed.pods
        for key in self._cluster.nodes[node].holdings:
            spot = spots.get(key)
            if spot is not None and spot[0].rules is not None and port in spot[0].rules.ports:
                return key
        return "another pod"
