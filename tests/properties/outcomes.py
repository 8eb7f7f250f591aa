"""What was decided about pods, in a form that can be compared."""

from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.model.node import Node
from tonnage.model.pod import Pod

VENDORS = default_vendors()


def told(objects: list[Node | Pod]) -> Cluster:
    cluster = Cluster(VENDORS)
    for thing in objects:
        if isinstance(thing, Node):
            cluster.upsert_node(thing)
        else:
            cluster.upsert_pod(thing)
    return cluster
