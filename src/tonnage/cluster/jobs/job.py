"""Jobs: pods that are scheduled together; a plain pod is a job of one.

The first of these decides whether a job is preemptible: its PodGroup (KAI's `preemptibility`); each pod's label
`kai.scheduler/preemptibility` (`preemptible` or `non-preemptible`); its annotation or label `volcano.sh/preemptable`
(`true`; anything else means no); being a pod of Volcano, which is preemptible by default; the job's priority, which
must be below 100, KAI's line between training and interactive work.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from itertools import chain

from tonnage.cluster.jobs.group import LET_IN, VOLCANO_GROUP, Group
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE
from tonnage.cluster.jobs.subgroups import Path, SubGroups, SubGroupTree
from tonnage.cluster.jobs.topologyconstraint import LabelConstraint, said_by_pods
from tonnage.cluster.task import Task
from tonnage.model.pod import Pod

KAI_LABEL = "kai.scheduler/preemptibility"
VOLCANO_KEY = "volcano.sh/preemptable"
VOLCANO = "volcano"
NOT_PREEMPTIBLE_FROM = 100
"""Jobs of at least this priority are not preemptible by default."""


class PodStatus(IntEnum):
    """The status of a pod in its job; an int, so that counts are lists indexed by it."""

    WAITING = 0
    PLACED = 1
    """It has a reservation."""
    PIPELINED = 2
    """It has a reservation on a place that other pods have to leave first."""
    RUNNING = 3
    LEAVING = 4
    """It is being deleted or evicted."""
    SUCCEEDED = 5


HAVE_PLACES = (PodStatus.PLACED, PodStatus.PIPELINED, PodStatus.RUNNING)
"""The statuses of pods that are on a node, or will be."""
_RUNNING = "Running"
"""The phase of Volcano PodGroups that have started."""
_NO_PODS = (0,) * len(PodStatus)
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_NO_ROLES: Mapping[str, int] = {}
_NOBODY: Mapping[str | Path | None, int] = {}
_UNKNOWN = LabelConstraint()
StatusOf = Callable[[str], PodStatus]


class Job:
    """A gang of pods that start together or not at all, or a plain pod."""

    __slots__ = (
        "_constraint",
        "_counts",
        "_created",
        "_facts",
        "_paths",
        "_preemptible",
        "_priority",
        "_status_of",
        "_statuses",
        "_tree",
        "class_priority",
        "finished",
        "group",
        "is_lost",
        "key",
        "maximum",
        "minimum",
        "queue",
        "roles",
        "subgroups",
        "tasks",
    )

    def __init__(
        self,
        key: str,
        tasks: dict[str, Task],
        queue: str = DEFAULT_QUEUE,
        group: Group | None = None,
        status_of: StatusOf | None = None,
    ) -> None:
        self.key = key
        """Namespace and name."""
        self.tasks = tasks
        """Its waiting and running pods by namespace and name."""
        self.queue = queue
        """The name of its queue."""
        self.group = group
        """Its group; nothing for a plain pod or an unknown group."""
        self.minimum = 1
        """The number of pods that must have a place before any of them starts."""
        self.maximum: int | None = None
        """The number of pods that may have a place; nothing for no limit."""
        self.roles = _NO_ROLES
        """The number of pods of each role among the minimum."""
        self.subgroups: SubGroups | None = None
        """Its parts that are placed whole, if its group has any."""
        self._paths: dict[str, Path] = {}
        self._tree: SubGroupTree | None = None
        self._read_group()
        self.is_lost = False
        """Whether its pods name a group that is not known."""
        self.class_priority: int | None = None
        """The value of its group's priority class, if that is known."""
        self._status_of = status_of
        """Looks up the status of a plain pod; other jobs get every change by `move`."""
        self._statuses: dict[str, PodStatus] | None = None
        self.finished: dict[str, Pod] = {}
        """Its succeeded pods, until they are deleted."""
        self._counts: dict[str | Path | None, list[int]] = {}
        self._preemptible: bool | None = None
        self._priority: int | None = None
        self._created: str | None = None
        self._facts: Hashable = None
        self._constraint: LabelConstraint | None = _UNKNOWN

    @property
    def namespace(self) -> str:
        """The namespace of its pods."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The name without the namespace."""
        return self.key.partition("/")[2]

    @property
    def priority(self) -> int:
        """The value of its priority class, else the highest priority of its pods."""
        if self.class_priority is not None:
            return self.class_priority
        if self._priority is None:
            self._priority = max([task.priority for task in self.tasks.values()], default=0)
        return self._priority

    @property
    def created(self) -> str:
        """The creation time of its group, else of its oldest pod."""
        if self._created is None:
            made = self.group.created if self.group is not None else ""
            self._created = made or min([task.created for task in self.tasks.values()], default="")
        return self._created

    @property
    def preemptible(self) -> bool:
        """Whether the whole job may be evicted for others, which all its pods must allow."""
        if self._preemptible is None:
            said = self.group.preemptible if self.group is not None else None
            self._preemptible = all(map(self.may_evict, self.tasks.values())) if said is None else said
        return self._preemptible

    def may_evict(self, task: Task) -> bool:
        """Whether one of its pods allows its eviction for others."""
        said = self.group.preemptible if self.group is not None else None
        return _is_preemptible(task, self.priority < NOT_PREEMPTIBLE_FROM) if said is None else said

    @property
    def lineage(self) -> str:
        """What stays the same when its pods are made again: its key, or for a plain pod the object that makes it."""
        if self.group is None and len(self.tasks) == 1:
            (task,) = self.tasks.values()
            maker = task.pod.metadata.controller
            if maker is not None:
                return f"{self.namespace}/{maker.kind}/{maker.name}"
        return self.key

    # -- the group

    def _read_group(self) -> None:
        """Take over what the group says about numbers of pods, which is asked several times per placement."""
        group = self.group
        self.minimum = 1 if group is None else group.minimum
        self.maximum = None if group is None else group.maximum
        self.roles = _NO_ROLES if group is None else group.roles
        self.subgroups = None if group is None else group.subgroups
        self._paths.clear()

    @property
    def facts(self) -> Hashable:
        """What decisions depend on beyond the job's pods, names and progress."""
        if self.group is None:
            return self.queue
        if self._facts is None:
            roles = tuple(sorted(self.roles.items()))
            facts = self.queue, self.minimum, self.maximum, roles, self.priority, self.preemptible
            self._facts = facts if self.subgroups is None else (*facts, repr(self.subgroups))
        return self._facts

    @property
    def constraint(self) -> LabelConstraint | None:
        """The node label of which all its pods must find one value: from its group, else from its pods."""
        if self._constraint is _UNKNOWN:
            said = self.group.near if self.group is not None else None
            self._constraint = said_by_pods(self.tasks.values()) if said is None else said
        return self._constraint

    @property
    def is_kept_together(self) -> bool:
        """Whether it has a topology constraint, or one of its subgroups."""
        if self.constraint is not None or (self.group is not None and self.group.network is not None):
            return True
        return self.subgroups is not None and bool(self.subgroups.constraints())

    # -- subgroups

    def subgroup_of(self, task: Task) -> Path:
        """The subgroup that one of its pods is in; empty if it is in none."""
        return () if self.subgroups is None else self._path_of(task.key, task.pod)

    def inside(self, path: Path, *statuses: PodStatus) -> list[Task]:
        """The pods of a subgroup with one of the statuses."""
        tasks = self.tasks_that(*statuses)
        return [task for task in tasks if self.subgroup_of(task)[: len(path)] == path] if path else tasks

    @property
    def tree(self) -> SubGroupTree:
        """Its subgroups."""
        if self._tree is None:
            leaves = [key for key in self._counts if isinstance(key, tuple) and key]
            self._tree = SubGroupTree(self.subgroups or SubGroups({}), leaves)
        return self._tree

    def _path_of(self, key: str, pod: Pod) -> Path:
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = () if self.subgroups is None else self.subgroups.path_of(pod)
        return path

    # -- pods by status

    def pods(self) -> Iterator[Pod]:
        """All its pods, those that have succeeded included."""
        return chain((task.pod for task in self.tasks.values()), self.finished.values())

    def count(self, *statuses: PodStatus, role: str | Path | None = None) -> int:
        """The number of its pods with one of the statuses, of one role or subgroup or of all."""
        counts = self._counted(role)
        return sum([counts[status] for status in statuses])

    def started(self, role: str | Path | None = None) -> int:
        """The number of its pods that are placed, run or have succeeded."""
        # The counts are in the order of PodStatus; unpacking them takes a quarter of the time of indexing.
        _, placed, _, running, _, succeeded = self._counted(role)
        return placed + running + succeeded

    def with_place(self, role: str | Path | None = None) -> int:
        """The same, and pods whose place others have to leave first."""
        _, placed, pipelined, running, _, succeeded = self._counted(role)
        return placed + pipelined + running + succeeded

    def staying(self, role: str | Path | None = None) -> int:
        """The number of its pods that are not leaving."""
        waiting, placed, pipelined, running, _, succeeded = self._counted(role)
        return waiting + placed + pipelined + running + succeeded

    def _counted(self, role: str | Path | None) -> Sequence[int]:
        """The number of its pods by status."""
        if self._statuses is not None:
            return self._counts.get(role, _NO_PODS)
        counts = [0] * len(_NO_PODS)
        counts[self._plain_status()] = len(self.tasks)
        return counts

    def tasks_that(self, *statuses: PodStatus) -> list[Task]:
        """Its pods with one of the statuses."""
        if self._statuses is None:
            return list(self.tasks.values()) if self._plain_status() in statuses else []
        current = self._statuses
        return [task for key, task in self.tasks.items() if current[key] in statuses]

    def is_promised(self, task: Task) -> bool:
        """Whether one of its pods waits with a place that others have to leave first."""
        status = self._plain_status() if self._statuses is None else self._statuses.get(task.key)
        return status == PodStatus.PIPELINED

    def lacking(self, without: Collection[str] = ()) -> dict[str | Path | None, int]:
        """The number of pods that lack a place before it can start, in all, by role and by subgroup; empty if it can.

        The places of pods `without` do not count.
        """
        left_out = self._roles_of(without) if without else _NOBODY
        missing = self.minimum - self.with_place() + left_out.get(None, 0)
        short: dict[str | Path | None, int] = {None: missing} if missing > 0 else {}
        for role, minimum in self.roles.items():
            missing = minimum - self.with_place(role) + left_out.get(role, 0)
            if missing > 0:
                short[role] = missing
        if self.subgroups is not None:
            short.update(self.tree.shortfalls(lambda path: self.with_place(path) - left_out.get(path, 0)).items())
        return short

    def _roles_of(self, keys: Collection[str]) -> "Counter[str | Path | None]":
        """How many of these pods have a place, in all, by role and by subgroup."""
        placed = [task for task in self.tasks_that(*HAVE_PLACES) if task.key in keys]
        counted: Counter[str | Path | None] = Counter({None: len(placed)})
        if self.group is not None and self.roles:
            counted.update([self.group.role(task.pod) for task in placed])
        if self.subgroups is not None:
            counted.update([self.subgroup_of(task) for task in placed])
        return counted

    def asking(self) -> list[Task]:
        """The pods to place in its next turn: as many as it lacks to start, or one."""
        return self.tasks_that(PodStatus.WAITING)[: max(self.minimum - self.with_place(), 1)]

    @contextmanager
    def supposing(self, tasks: Sequence[Task]) -> Iterator[None]:
        """Count some waiting pods as placed for a while."""
        for task in tasks:
            self.move(task.key, PodStatus.PLACED)
        try:
            yield
        finally:
            for task in tasks:
                self.move(task.key, PodStatus.WAITING)

    def _plain_status(self) -> PodStatus:
        return PodStatus.WAITING if self._status_of is None else self._status_of(self.key)

    # -- events

    def put(self, task: Task, status: PodStatus) -> None:
        """Add or change a pod."""
        key = task.key
        known = self.tasks.get(key)
        if known is not task:
            self._discount(key)
            self.finished.pop(key, None)
            self.tasks[key] = task
            self._paths.pop(key, None)
            self._forget()
        self.move(key, status)

    def finish(self, pod: Pod) -> None:
        """Count a pod as succeeded."""
        self._discount(pod.key)
        self.tasks.pop(pod.key, None)
        self.finished[pod.key] = pod
        self._forget()
        self.move(pod.key, PodStatus.SUCCEEDED)

    def drop(self, key: str) -> bool:
        """Remove a pod; whether it was the last one."""
        self._discount(key)
        self.tasks.pop(key, None)
        self.finished.pop(key, None)
        self._paths.pop(key, None)
        self._forget()
        return not self._statuses

    def move(self, key: str, status: PodStatus) -> None:
        """Set the status of a pod."""
        if self._statuses is None:
            self._statuses, self._counts = {}, {None: [0] * len(_NO_PODS)}
        before = self._statuses.get(key)
        if before != status:
            self._statuses[key] = status
            self._count_move(key, before, status)

    def set_group(self, group: Group | None, queue: str, priority: int | None) -> None:
        """Set its group, queue and the value of its priority class."""
        before = self.roles, self.subgroups
        self.group, self.queue, self.class_priority = group, queue, priority
        self._read_group()
        self._forget()
        if self._statuses is not None and (self.roles, self.subgroups) != before:
            self._count_all(self._statuses)

    def recount(self, status_of: StatusOf) -> None:
        """Count its pods by status anew."""
        if self._statuses is not None:
            self._statuses = {key: status_of(key) for key in self.tasks}
            self._statuses |= dict.fromkeys(self.finished, PodStatus.SUCCEEDED)
            self._count_all(self._statuses)

    def _count_all(self, statuses: Mapping[str, PodStatus]) -> None:
        self._counts, self._tree = {None: [0] * len(_NO_PODS)}, None
        for key, status in statuses.items():
            self._count_move(key, None, status)

    def _discount(self, key: str) -> None:
        if self._statuses is not None and key in self._statuses:
            self._count_move(key, self._statuses[key], None)
            del self._statuses[key]

    def _count_move(self, key: str, before: PodStatus | None, after: PodStatus | None) -> None:
        """Count a change of status among all pods, and among those of the pod's role and subgroup if those matter."""
        counts = self._counts[None]
        if before is not None:
            counts[before] -= 1
        if after is not None:
            counts[after] += 1
        if self.group is None or not (self.roles or self.subgroups):
            return
        pod = self.tasks[key].pod if key in self.tasks else self.finished[key]
        if self.roles:
            _move(self._counts.setdefault(self.group.role(pod), [0] * len(_NO_PODS)), before, after)
        if self.subgroups is not None:
            path = self._path_of(key, pod)
            if path not in self._counts:
                self._tree = None
            _move(self._counts.setdefault(path, [0] * len(_NO_PODS)), before, after)

    def _forget(self) -> None:
        self._priority = self._created = self._preemptible = self._facts = None
        self._constraint = _UNKNOWN


def _move(counts: list[int], before: PodStatus | None, after: PodStatus | None) -> None:
    if before is not None:
        counts[before] -= 1
    if after is not None:
        counts[after] += 1


def is_promised(group: Group, job: Job | None) -> bool:
    """Whether room is kept for what a group starts with: it was let in, and has not lost what it started with."""
    runs = group.phase == _RUNNING and job is not None and job.started() >= job.minimum
    return group.phase == LET_IN or runs


def _is_preemptible(task: Task, otherwise: bool) -> bool:
    """Whether a pod is preemptible by its labels, annotations or scheduler, or else by default."""
    labels, annotations = task.pod.labels, task.annotations
    said = labels.get(KAI_LABEL)
    if said is not None:
        return said == "preemptible"
    said = annotations.get(VOLCANO_KEY, labels.get(VOLCANO_KEY))
    if said is not None:
        return said in _TRUE
    return otherwise or VOLCANO_GROUP in annotations or task.pod.spec.schedulerName == VOLCANO
