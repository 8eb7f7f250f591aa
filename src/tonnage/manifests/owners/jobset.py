"""JobSets of jobset.x-k8s.io: replicas of several Jobs that belong together."""

from collections.abc import Iterator
from hashlib import sha1
from itertools import accumulate
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from tonnage.manifests.owners.inventory import Inventory
from tonnage.manifests.owners.job import INDEXED, BatchJob, JobTemplate
from tonnage.manifests.owners.owner import Condition, PodTemplate, is_true
from tonnage.model.group import Count
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod

_PREFIX = "jobset.sigs.k8s.io/"
_INHERITED = ("alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector")
"""The annotations of a JobSet that its pods have too."""
_FINISHED = ("Completed", "Failed")


class Dependency(msgspec.Struct, gc=False, frozen=True):
    """A replicated Job that must be ready or complete before another one is made."""

    name: str = ""
    status: str = ""


class ReplicatedJob(msgspec.Struct, gc=False, frozen=True):
    """Jobs of one template."""

    name: str = ""
    replicas: Count = 1
    template: JobTemplate = JobTemplate()
    dependsOn: list[Dependency] | None = None


class JobSetSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a JobSet."""

    replicatedJobs: list[ReplicatedJob] = []
    suspend: bool = False


class ReplicatedJobStatus(msgspec.Struct, gc=False, frozen=True):
    """How many Jobs of one template have succeeded."""

    name: str = ""
    succeeded: Count = 0


class JobSetStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a JobSet."""

    conditions: list[Condition] | None = None
    restarts: Count = 0
    replicatedJobsStatus: list[ReplicatedJobStatus] | None = None


class JobSet(msgspec.Struct, gc=False, frozen=True):
    """A JobSet."""

    kind: ClassVar[str] = "JobSet"
    metadata: ObjectMeta
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        for number, part in enumerate(self.spec.replicatedJobs):
            yield f"spec.replicatedJobs[{number}].template.spec.template", part.template.spec.template

    def missing(self, inventory: Inventory) -> Iterator[Pod]:
        """The pods of its missing Jobs, unless these wait until others are complete.

        Jobs that wait until others are ready are made: they will run beside these.
        """
        if self.spec.suspend or is_true(self.status.conditions, *_FINISHED):
            return
        parts = self.spec.replicatedJobs
        firsts = accumulate((part.replicas for part in parts), initial=0)
        for part, first in zip(parts, firsts, strict=False):
            if any(one.status == "Complete" and not self._is_complete(one.name) for one in part.dependsOn or ()):
                continue
            for index in range(part.replicas):
                job = self._job(part, index, first + index)
                if not inventory.has(BatchJob.kind, job.metadata.key):
                    yield from job.missing(inventory)

    def _is_complete(self, name: str) -> bool:
        succeeded = {one.name: one.succeeded for one in self.status.replicatedJobsStatus or ()}
        return all(succeeded.get(name, 0) >= part.replicas for part in self.spec.replicatedJobs if part.name == name)

    def _job(self, part: ReplicatedJob, index: int, overall: int) -> BatchJob:
        """One of its Jobs; labels and annotations are those of the Job and of its pods."""
        meta, template = self.metadata, part.template
        name = f"{meta.name}-{part.name}-{index}"
        said = {
            f"{_PREFIX}jobset-name": meta.name,
            f"{_PREFIX}replicatedjob-name": part.name,
            f"{_PREFIX}replicatedjob-replicas": str(part.replicas),
            f"{_PREFIX}global-replicas": str(sum(one.replicas for one in self.spec.replicatedJobs)),
            f"{_PREFIX}restart-attempt": str(self.status.restarts),
            f"{_PREFIX}job-index": str(index),
            f"{_PREFIX}job-global-index": str(overall),
            f"{_PREFIX}job-key": sha1(
                f"{meta.namespace or 'default'}/{name}".encode(), usedforsecurity=False
            ).hexdigest(),
        }
        inherited = {key: text for key, text in (meta.annotations or {}).items() if key in _INHERITED}
        pods = template.spec.template

        def marked(one: ObjectMeta) -> ObjectMeta:
            annotations = {**(one.annotations or {}), **said, **inherited}
            return replace(one, labels={**(one.labels or {}), **said}, annotations=annotations)

        owner = OwnerReference(meta.name, controller=True, kind="JobSet")
        parallelism = 1 if template.spec.parallelism is None else template.spec.parallelism
        spec = replace(
            template.spec,
            completionMode=template.spec.completionMode or INDEXED,
            # A Job whose completions are left out has as many as it runs at a time.
            completions=parallelism if template.spec.completions is None else template.spec.completions,
            template=replace(pods, metadata=marked(pods.metadata)),
        )
        made = replace(marked(template.metadata), name=name, namespace=meta.namespace, ownerReferences=[owner])
        return BatchJob(made, spec)
