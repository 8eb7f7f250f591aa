"""A plugin that lets nothing go, and the state that a cycle can change."""

from typing import Any

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


def picture(cluster: Cluster) -> tuple[Any, ...]:
    """Everything that a cycle can change."""
    cluster.settle()
    columns = cluster.columns
    counts = {key: [job.count(status) for status in range(6)] for key, job in cluster.groups.jobs.items()}
    arrays = tuple(array.tobytes() for array in (columns.free, columns.card_free, columns.node_used))
    return arrays, set(cluster.waiting), dict(cluster.holders), set(cluster.pipelined), set(cluster.leaving), counts


class Never(Plugin):
    """Finds no job ready."""

    name = "never"

    def on_session_open(self, session: Session) -> None:
        session.add_job_ready(lambda job: False)
        session.add_job_pipelined(lambda job: False)
