"""Jobs of batch/v1: so many pods at a time until enough have succeeded."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import msgspec

from tonnage.manifests.owners.inventory import Inventory, is_active
from tonnage.manifests.owners.owner import Condition, PodTemplate, is_true
from tonnage.model.group import Count
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.number import LARGEST_COUNT, whole_number
from tonnage.model.pod import Pod

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEXED = "Indexed"
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_FINISHED = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")

Spans = list[tuple[int, int]]
"""Ranges of indexes, each with its first and last one."""


class JobSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a Job."""

    parallelism: Count | None = None
    completions: Count | None = None
    completionMode: str | None = None
    suspend: bool = False
    template: PodTemplate = PodTemplate()


class JobStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a Job."""

    succeeded: Count = 0
    completedIndexes: str | None = None
    failedIndexes: str | None = None
    conditions: list[Condition] | None = None


class JobTemplate(msgspec.Struct, gc=False, frozen=True):
    """The template of Jobs, as CronJobs and JobSets have it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class BatchJob(msgspec.Struct, gc=False, frozen=True):
    """A Job."""

    kind: ClassVar[str] = "Job"
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        yield "spec.template", self.spec.template

    def missing(self, inventory: Inventory) -> Iterator[Pod]:
        if self.spec.suspend or is_true(self.status.conditions, *_FINISHED):
            return
        meta, spec = self.metadata, self.spec
        pods = inventory.pods_of("Job", meta.key)
        active = [pod for pod in pods if is_active(pod)]
        wanted = self._wanted(max(self.status.succeeded, sum(pod.has_succeeded for pod in pods)), len(active))
        reference = OwnerReference(meta.name, controller=True, kind="Job")
        admitted = inventory.admitted(spec.template.spec)
        labels = dict.fromkeys(_NAME_LABELS, meta.name)
        if spec.completionMode != INDEXED:
            for _ in range(wanted - len(active)):
                name = inventory.free_name(meta.namespace, meta.name)
                yield inventory.pod(name, reference, meta.namespace, spec.template, admitted, labels)
            return
        done = [*_spans(self.status.completedIndexes), *_spans(self.status.failedIndexes)]
        done += [(index, index) for pod in pods if is_active(pod) or pod.has_succeeded for index in _index_of(pod)]
        for index in _free_indexes(spec.completions or 0, done, wanted - len(active)):
            name = inventory.free_name(meta.namespace, f"{meta.name}-{index}")
            said = {COMPLETION_INDEX: str(index)}
            yield inventory.pod(
                name, reference, meta.namespace, spec.template, admitted, {**labels, **said}, annotations=said
            )

    def _wanted(self, succeeded: int, active: int) -> int:
        """How many pods should run at the same time now."""
        spec = self.spec
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        if spec.completions is None and spec.parallelism is None:
            return max(1 - succeeded, 0)
        if spec.completions is None:
            # The pods share a queue of work: once one has found it empty, no more are made.
            return active if succeeded else parallelism
        return min(parallelism, max(spec.completions - succeeded, 0))


def _index_of(pod: Pod) -> Iterator[int]:
    index = whole_number(pod.annotations.get(COMPLETION_INDEX, ""), 0, LARGEST_COUNT)
    if index is not None:
        yield index


def _spans(text: str | None) -> Iterator[tuple[int, int]]:
    """The indexes in a text such as 1,3-5."""
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        low, high = (whole_number(end, 0, LARGEST_COUNT) for end in (first, last or first))
        if low is not None and high is not None:
            yield low, high


def _free_indexes(completions: int, taken: Iterable[tuple[int, int]], most: int) -> Iterator[int]:
    """The lowest indexes that are not taken."""
    free, left = 0, most
    for low, high in (*sorted(taken), (completions, completions)):
        for index in range(free, min(low, completions)):
            if left <= 0:
                return
            left -= 1
            yield index
        free = max(free, high + 1)
