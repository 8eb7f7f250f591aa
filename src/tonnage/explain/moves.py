"""Moves: what a search for pods to move has to offer, and the pods that controllers make in the place of others.

The search lies above this package, so whoever makes an Explainer hands it in.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.session import Session
from tonnage.framework.statement import successor
from tonnage.model.pod import Pod, ReportedPodStatus
from tonnage.model.timestamp import rfc3339


class PricedDeparture(NamedTuple):
    """A running pod whose moving may help, and what that costs."""

    pod: str
    gpu_hours: float
    """The work that is lost."""
    stops: tuple[str, ...] = ()
    """Other pods of its gang that cannot run on without it; what they lose is counted."""


class MoveSearch(Protocol):
    """Looks for pods to move so that a job starts."""

    def departures(self, session: Session, job: Job, tasks: Sequence[Task]) -> Sequence[PricedDeparture]:
        """The pods to move for these waiting pods of a job, none if no such are found; changes nothing."""
        ...


def unplaced(cluster: Cluster, pod: Pod) -> Pod:
    """A pod without what a scheduler wrote."""
    records = {key for vendor in cluster.vendors for key in (*vendor.record_annotations, vendor.to_allocate) if key}
    notes = {key: text for key, text in pod.annotations.items() if key not in records}
    return replace(pod, spec=replace(pod.spec, nodeName=None), metadata=replace(pod.metadata, annotations=notes))


def remade(cluster: Cluster, pod: Pod) -> Pod:
    """The pod that a controller makes now in the place of another, which waits for a node."""
    again = unplaced(cluster, pod)
    created = None if cluster.now is None else rfc3339(cluster.now)
    metadata = replace(
        again.metadata, name=successor(pod.metadata.name), uid=None, creationTimestamp=created, deletionTimestamp=None
    )
    return Pod(metadata, again.spec, ReportedPodStatus())
