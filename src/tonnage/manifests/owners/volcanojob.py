"""Jobs of batch.volcano.sh: tasks whose pods start together, by the PodGroup that the controller makes for them."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from tonnage.cluster.jobs.group import VOLCANO_GROUP, VOLCANO_QUEUE, VOLCANO_ROLE
from tonnage.manifests.owners.inventory import Inventory
from tonnage.manifests.owners.owner import PodTemplate
from tonnage.model.group import Count, NetworkTopology, Quantities, SubGroupPolicy, VolcanoGroupSpec, VolcanoPodGroup
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod
from tonnage.model.resources import CPU, PODS, effective_request
from tonnage.model.selection import LabelSelector

JOB_NAME, JOB_NAMESPACE = "volcano.sh/job-name", "volcano.sh/job-namespace"
QUEUE_NAME, TASK_INDEX = "volcano.sh/queue-name", "volcano.sh/task-index"
PARTITION = "volcano.sh/partition-id"
_FINISHED = ("Completed", "Completing", "Failed", "Aborted", "Aborting", "Terminated", "Terminating")


class PartitionPolicy(msgspec.Struct, gc=False, frozen=True):
    """The parts of a task, each of so many pods, that are placed whole."""

    partitionSize: Count = 0
    minPartitions: Count = 0
    networkTopology: NetworkTopology | None = None

    def part_of(self, index: int) -> str:
        """The part of the pod with that index."""
        return str(index // self.partitionSize if self.partitionSize else 0)

    def subgroups(self, task: str) -> SubGroupPolicy:
        """The same as the controller writes it into the PodGroup."""
        selector = LabelSelector({VOLCANO_ROLE: task})
        size, least = self.partitionSize, self.minPartitions
        return SubGroupPolicy(task, self.networkTopology, size, least, selector, [PARTITION])


class VolcanoTask(msgspec.Struct, gc=False, frozen=True):
    """Pods of one template."""

    name: str = ""
    replicas: Count = 1
    minAvailable: Count | None = None
    template: PodTemplate = PodTemplate()
    partitionPolicy: PartitionPolicy | None = None

    @property
    def least(self) -> int:
        """How many of its pods must run."""
        if self.minAvailable is not None:
            return self.minAvailable
        policy = self.partitionPolicy
        in_parts = policy.minPartitions * policy.partitionSize if policy is not None else 0
        return in_parts or self.replicas


class VolcanoJobSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a Volcano Job."""

    tasks: list[VolcanoTask] = []
    minAvailable: Count = 0
    queue: str | None = None
    schedulerName: str | None = None
    priorityClassName: str | None = None
    networkTopology: NetworkTopology | None = None


class VolcanoJobState(msgspec.Struct, gc=False, frozen=True):
    """The state of a Volcano Job."""

    phase: str = ""


class VolcanoJobStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a Volcano Job."""

    state: VolcanoJobState = VolcanoJobState()


class VolcanoJob(msgspec.Struct, gc=False, frozen=True):
    """A Volcano Job."""

    kind: ClassVar[str] = "Job"
    metadata: ObjectMeta
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        for number, task in enumerate(self.spec.tasks):
            yield f"spec.tasks[{number}].template", task.template

    def missing(self, inventory: Inventory) -> Iterator[Pod | VolcanoPodGroup]:
        if self.status.state.phase in _FINISHED:
            return
        meta, queue = self.metadata, self.spec.queue or "default"
        group = self._group(inventory)
        if group is None:
            made = self._new_group(queue)
            yield made
            group = made.metadata.name
        reference = OwnerReference(meta.name, controller=True, kind="Job")
        for number, task in enumerate(self.spec.tasks):
            task_name = task.name or f"default{number}"
            spec = inventory.admitted(task.template.spec, self.spec.priorityClassName)
            if not spec.schedulerName and self.spec.schedulerName:
                spec = msgspec.structs.replace(spec, schedulerName=self.spec.schedulerName)
            for index in range(task.replicas):
                name = f"{meta.name}-{task_name}-{index}"
                if f"{meta.namespace or 'default'}/{name}" in inventory.pods:
                    continue
                labels = {
                    JOB_NAME: meta.name,
                    JOB_NAMESPACE: meta.namespace or "default",
                    QUEUE_NAME: queue,
                    TASK_INDEX: str(index),
                    VOLCANO_ROLE: task_name,
                }
                annotations = {**labels, VOLCANO_GROUP: group, VOLCANO_QUEUE: queue}
                if task.partitionPolicy is not None:
                    labels[PARTITION] = task.partitionPolicy.part_of(index)
                yield inventory.pod(name, reference, meta.namespace, task.template, spec, labels, annotations)

    def _group(self, inventory: Inventory) -> str | None:
        """The name of its PodGroup in the input."""
        meta = self.metadata
        for pod in inventory.pods_of("Job", meta.key):
            if VOLCANO_GROUP in pod.annotations:
                return pod.annotations[VOLCANO_GROUP]
        for group in inventory.groups.values():
            owner = group.metadata.controller
            if group.key == self._group_key or (
                owner is not None
                and (owner.kind, owner.name) == ("Job", meta.name)
                and (group.metadata.namespace or "default") == (meta.namespace or "default")
            ):
                return group.metadata.name
        return None

    @property
    def _group_key(self) -> str:
        return f"{self.metadata.key}-{self.metadata.uid}" if self.metadata.uid else self.metadata.key

    def _new_group(self, queue: str) -> VolcanoPodGroup:
        meta, tasks = self.metadata, self.spec.tasks
        least = self.spec.minAvailable or sum(task.least for task in tasks)
        owner = OwnerReference(meta.name, controller=True, kind="Job")
        return VolcanoPodGroup(
            ObjectMeta(
                name=self._group_key.partition("/")[2],
                namespace=meta.namespace,
                labels=meta.labels,
                annotations=meta.annotations,
                creationTimestamp=meta.creationTimestamp,
                ownerReferences=[owner],
            ),
            VolcanoGroupSpec(
                least,
                {task.name or f"default{number}": task.least for number, task in enumerate(tasks)},
                queue,
                self.spec.priorityClassName,
                self._least_resources(least),
                self.spec.networkTopology,
                [
                    task.partitionPolicy.subgroups(task.name or f"default{number}")
                    for number, task in enumerate(tasks)
                    if task.partitionPolicy is not None
                ],
            ),
        )

    def _least_resources(self, least: int) -> Quantities:
        """What so many pods request: of every task as many as must run, then further ones, in the order of tasks."""
        tasks = self.spec.tasks
        counts = list[int]()
        left = least
        for task in tasks:
            counts.append(min(task.least, task.replicas, left))
            left -= counts[-1]
        for number, task in enumerate(tasks):
            more = min(task.replicas - counts[number], left)
            counts[number] += more
            left -= more
        sums: dict[str, int] = {}
        for task, count in zip(tasks, counts, strict=True):
            request = effective_request(Pod(ObjectMeta(), task.template.spec))
            for name, amount in request.items():
                sums[name] = sums.get(name, 0) + amount * count
        return {name: f"{amount}m" if name == CPU else amount for name, amount in sums.items() if name != PODS}
