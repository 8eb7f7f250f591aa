"""Sub-jobs: the subgroups of a job in the order in which they are placed, each whole or not at all.

A subgroup of pods that is not complete needs so many of its waiting pods at once; one that consists of subgroups needs
so many of those. Beyond that, and outside of subgroups, each pod is placed by itself. What the group requires comes
first, then the order of the pods decides. Of subgroups of which only some must be complete the smallest come first,
because most of those fit.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.subgroups import Path
from tonnage.cluster.task import Task
from tonnage.framework.answers import by_size
from tonnage.framework.decision import Reason


class SubJob(NamedTuple):
    """Pods of a subgroup, or of the subgroups inside of it, that are placed whole or not at all."""

    path: Path
    """The subgroup; empty for a pod in none."""
    needed: int
    """How many of the pods, or of the parts, must have a place."""
    tasks: Sequence[Task]
    """Its waiting pods in their order."""
    parts: "Sequence[SubJob]" = ()
    """The subgroups inside of it, if it consists of them."""

    def first(self) -> list[Task]:
        """The pods that it is complete with if each of them gets a place."""
        if not self.parts:
            return list(self.tasks[: self.needed])
        return [task for part in self.parts[: self.needed] for task in part.first()]


def sub_jobs(job: Job, tasks: Sequence[Task], path: Path = ()) -> list[SubJob]:
    """The sub-jobs of a subgroup, or of the whole job, of which these pods are waiting in their order."""
    inside: dict[Path, list[Task]] = {}
    alone: list[SubJob] = []
    for task in tasks:
        around = job.subgroup_of(task)
        if len(around) > len(path):
            inside.setdefault(around[: len(path) + 1], []).append(task)
        else:
            alone.append(SubJob(path, 1, [task]))
    required: list[SubJob] = []
    others: list[SubJob] = []
    for child, pods in inside.items():
        missing = job.tree.shortfalls(job.with_place, child)
        (required if missing else others).extend(_of(job, child, pods, bool(missing)))
    if job.subgroups is not None and job.subgroups.rule(path).needed is not None:
        required.sort(key=_size)
    return [*required, *sorted([*others, *alone], key=_Order(tasks))]


class _Order:
    """Sub-jobs by the first of their pods."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._places = {task.key: place for place, task in enumerate(tasks)}

    def __call__(self, one: SubJob) -> int:
        return self._places[one.tasks[0].key]


def _size(part: SubJob) -> tuple[int, int, int]:
    """What its pods request together: cards, CPU, memory."""
    sizes = [by_size(task)[1:4] for task in part.first()]
    cards, cpu, memory = (-sum(amounts) for amounts in zip(*sizes, strict=True))
    return cards, cpu, memory


def _of(job: Job, path: Path, tasks: Sequence[Task], is_required: bool) -> Iterator[SubJob]:
    """What is placed together of a subgroup; nothing if it has too few pods to be complete."""
    children, rule = job.tree.children(path), job.subgroups.rule(path) if job.subgroups is not None else None
    if children is None or rule is None:
        if not is_required:
            yield from [SubJob(path, 1, [task]) for task in tasks]
        elif len(tasks) >= (missing := job.tree.missing(job.with_place, path)):
            yield SubJob(path, missing, tasks)
        return
    parts = sub_jobs(job, tasks, path)
    if not is_required:
        # Each is one of those beyond what is required, but still within the domain of the subgroup around it.
        yield from [SubJob(path, 1, part.tasks, [part]) for part in parts]
        return
    short = [child for child in children if job.tree.shortfalls(job.with_place, child)]
    needed = len(short) if rule.needed is None else rule.needed - (len(children) - len(short))
    parts = [part for part in parts if part.path in short]
    if len(parts) >= needed:
        yield SubJob(path, needed, [task for part in parts for task in part.tasks], parts)


def too_few_pods(job: Job, task: Task) -> Reason:
    """Why a pod is in no sub-job: its subgroup, or one around it, cannot be complete with the pods that there are."""
    path = job.subgroup_of(task)
    message = f"subgroup {'/'.join(path)} of {job.key} needs {job.tree.missing(job.with_place, path)} more pods at once"
    return Reason("NotEnoughPodsOfSubGroup", f"{message}, and {len(job.inside(path, PodStatus.WAITING))} are waiting")
