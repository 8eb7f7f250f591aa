"""CronJobs of batch/v1."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from tonnage.manifests.owners.inventory import Inventory
from tonnage.manifests.owners.job import BatchJob, JobTemplate
from tonnage.manifests.owners.owner import PodTemplate
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod


class CronJobSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a CronJob; its schedule is not read."""

    suspend: bool = False
    jobTemplate: JobTemplate = JobTemplate()


class CronJob(msgspec.Struct, gc=False, frozen=True):
    """A CronJob."""

    kind: ClassVar[str] = "CronJob"
    metadata: ObjectMeta
    spec: CronJobSpec = CronJobSpec()

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        yield "spec.jobTemplate.spec.template", self.spec.jobTemplate.spec.template

    def missing(self, inventory: Inventory) -> Iterator[Pod]:
        """The pods of one Job, as if it were due, of a CronJob that no cluster has yet.

        On a cluster the controller has made every Job that is due, and the input has it.
        """
        meta, template = self.metadata, self.spec.jobTemplate
        if self.spec.suspend or meta.creationTimestamp or inventory.children("CronJob", meta.key, BatchJob):
            return
        owner = OwnerReference(meta.name, controller=True, kind="CronJob")
        name = f"{meta.name}-{int(inventory.now) // 60}"
        made = replace(template.metadata, name=name, namespace=meta.namespace, ownerReferences=[owner])
        yield from BatchJob(made, template.spec).missing(inventory)
