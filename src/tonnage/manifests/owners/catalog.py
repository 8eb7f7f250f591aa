"""The registry of owners of pods."""

import msgspec

from tonnage.manifests.owners.cronjob import CronJob
from tonnage.manifests.owners.deployment import Deployment
from tonnage.manifests.owners.job import BatchJob
from tonnage.manifests.owners.jobset import JobSet
from tonnage.manifests.owners.owner import PodOwner
from tonnage.manifests.owners.replicaset import ReplicaSet
from tonnage.manifests.owners.statefulset import StatefulSet
from tonnage.manifests.owners.volcanojob import VolcanoJob


class OwnerKind(msgspec.Struct, frozen=True):
    """One kind of owners of pods."""

    api_version: str
    name: str
    struct: type[PodOwner]


OWNERS = (
    OwnerKind("apps/v1", "Deployment", Deployment),
    OwnerKind("apps/v1", "ReplicaSet", ReplicaSet),
    OwnerKind("apps/v1", "StatefulSet", StatefulSet),
    OwnerKind("batch/v1", "Job", BatchJob),
    OwnerKind("batch/v1", "CronJob", CronJob),
    OwnerKind("jobset.x-k8s.io/v1alpha2", "JobSet", JobSet),
    OwnerKind("batch.volcano.sh/v1alpha1", "Job", VolcanoJob),
)
BY_HEADER = {(kind.api_version, kind.name): kind for kind in OWNERS}
"""Owners by the apiVersion and kind that an object says."""
