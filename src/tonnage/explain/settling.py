"""Settling: a scheduler's cluster as one that nobody is at work on."""

from tonnage.cluster.cluster import Cluster


def settle_places(cluster: Cluster) -> None:
    """Let pods with a decided place run there, and let nominated pods wait again, whose places others still hold.

    For copies of a cluster: it is not undone.
    """
    for key in list(cluster.reserved):
        if key in cluster.pipelined:
            cluster.release(key)
        else:
            cluster.confirm(key)
