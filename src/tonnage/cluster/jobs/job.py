"""Jobs: pods that are scheduled together, a plain pod being a job of one.

Whether a job may be stopped to make room for others is said by, in this order: its PodGroup (KAI's `preemptibility`);
each pod's label `kai.scheduler/preemptibility` (`preemptible` or `non-preemptible`); its annotation or label
`volcano.sh/preemptable` (`true`, anything else means no); being one of Volcano's pods, which may be stopped unless they
say otherwise; and else the job's priority, which must be below 100, KAI's line between training and what people wait
for.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum

from tonnage.cluster.jobs.group import VOLCANO_GROUP, Group
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE
from tonnage.cluster.jobs.topologyconstraint import LabelConstraint, said_by_pods
from tonnage.cluster.task import Task
from tonnage.model.pod import Pod

KAI_LABEL = "kai.scheduler/preemptibility"
VOLCANO_KEY = "volcano.sh/preemptable"
VOLCANO = "volcano"
NOT_PREEMPTIBLE_FROM = 100
"""The priority from which on a job keeps its place unless it says otherwise."""


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
_NO_PODS = (0,) * len(PodStatus)
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_NO_ROLES: Mapping[str, int] = {}
_UNKNOWN = LabelConstraint()
StatusOf = Callable[[str], PodStatus]


class Job:
    """Pods that start together or not at all."""

    __slots__ = (
        "_constraint",
        "_counts",
        "_created",
        "_facts",
        "_preemptible",
        "_priority",
        "_status_of",
        "_statuses",
        "class_priority",
        "finished",
        "group",
        "is_lost",
        "key",
        "queue",
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
        """Its pods by namespace and name, waiting and running ones alike."""
        self.queue = queue
        self.group = group
        """What is known of it as a group; nothing if it is a plain pod, or nothing is known."""
        self.is_lost = False
        """Whether its pods name a group of which nothing is known."""
        self.class_priority: int | None = None
        """The priority that its group names, if it names one that is known."""
        self._status_of = status_of
        """Tells where a plain pod stands; other jobs are told of every change."""
        self._statuses: dict[str, PodStatus] | None = None
        self.finished: dict[str, Pod] = {}
        """Its pods that have done their work, as long as they are there."""
        self._counts: dict[str | None, list[int]] = {}
        self._preemptible: bool | None = None
        self._priority: int | None = None
        self._created: str | None = None
        self._facts: Hashable = None
        self._constraint: LabelConstraint | None = _UNKNOWN

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def priority(self) -> int:
        """That of its priority class, else that of its most important pod."""
        if self.class_priority is not None:
            return self.class_priority
        if self._priority is None:
            self._priority = max([task.priority for task in self.tasks.values()], default=0)
        return self._priority

    @property
    def created(self) -> str:
        """When its group was made, else its oldest pod."""
        if self._created is None:
            made = self.group.created if self.group is not None else ""
            self._created = made or min([task.created for task in self.tasks.values()], default="")
        return self._created

    @property
    def preemptible(self) -> bool:
        """Whether it may be stopped to make room for others; so only if all its pods may."""
        if self._preemptible is None:
            said = self.group.preemptible if self.group is not None else None
            self._preemptible = all(map(self.lets_go, self.tasks.values())) if said is None else said
        return self._preemptible

    def lets_go(self, task: Task) -> bool:
        """Whether one of its pods may be stopped as far as that pod is concerned."""
        said = self.group.preemptible if self.group is not None else None
        return _is_preemptible(task, self.priority < NOT_PREEMPTIBLE_FROM) if said is None else said

    # -- the group

    @property
    def minimum(self) -> int:
        """How many pods must have a place before any of them starts."""
        return 1 if self.group is None else self.group.minimum

    @property
    def maximum(self) -> int | None:
        """How many pods may have a place; nothing if all may."""
        return None if self.group is None else self.group.maximum

    @property
    def roles(self) -> Mapping[str, int]:
        """How many pods of each role must be among the minimum."""
        return _NO_ROLES if self.group is None else self.group.roles

    @property
    def facts(self) -> Hashable:
        """What is known of the job beyond its pods, names and how far it has come."""
        if self.group is None:
            return self.queue
        if self._facts is None:
            roles = tuple(sorted(self.roles.items()))
            self._facts = (self.queue, self.minimum, self.maximum, roles, self.priority, self.preemptible)
        return self._facts

    @property
    def constraint(self) -> LabelConstraint | None:
        """Within one value of which node label its pods are to be: what its group says, else its pods."""
        if self._constraint is _UNKNOWN:
            said = self.group.near if self.group is not None else None
            self._constraint = said_by_pods(self.tasks.values()) if said is None else said
        return self._constraint

    @property
    def is_kept_together(self) -> bool:
        """Whether something is said about how near to each other its pods are to be."""
        return self.constraint is not None or (self.group is not None and self.group.network is not None)

    # -- where its pods stand

    def count(self, *statuses: PodStatus, role: str | None = None) -> int:
        """How many of its pods stand so, of one role or of all."""
        counts = self._counted(role)
        return sum([counts[status] for status in statuses])

    def started(self, role: str | None = None) -> int:
        """How many of its pods have a place now, run, or have done their work."""
        # The counts are in the order of PodStatus; unpacking them takes a quarter of the time of indexing.
        _, placed, _, running, _, succeeded = self._counted(role)
        return placed + running + succeeded

    def promised(self, role: str | None = None) -> int:
        """The same, and pods whose place others have to leave first."""
        _, placed, pipelined, running, _, succeeded = self._counted(role)
        return placed + pipelined + running + succeeded

    def _counted(self, role: str | None) -> Sequence[int]:
        """How many of its pods stand where."""
        if self._statuses is not None:
            return self._counts.get(role, _NO_PODS)
        counts = [0] * len(_NO_PODS)
        counts[self._plain_status()] = len(self.tasks)
        return counts

    def tasks_that(self, *statuses: PodStatus) -> list[Task]:
        """Its pods that stand so."""
        if self._statuses is None:
            return list(self.tasks.values()) if self._plain_status() in statuses else []
        current = self._statuses
        return [task for key, task in self.tasks.items() if current[key] in statuses]

    def lacking(self) -> dict[str | None, int]:
        """How many pods must still get a place before it can start: in all, and of each role; nothing if it can."""
        short: dict[str | None, int] = {None: self.minimum - self.promised()}
        for role, minimum in self.roles.items():
            short[role] = minimum - self.promised(role)
        return {role: number for role, number in short.items() if number > 0}

    def asking(self) -> list[Task]:
        """The pods that it asks a place for in its next turn: as many as it lacks to start, or one."""
        return self.tasks_that(PodStatus.WAITING)[: max(self.minimum - self.promised(), 1)]

    @contextmanager
    def supposing(self, tasks: Sequence[Task]) -> Iterator[None]:
        """As if some waiting pods had a place."""
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
        """A pod has come or changed."""
        key = task.key
        known = self.tasks.get(key)
        if known is not task:
            self._discount(key)
            self.finished.pop(key, None)
            self.tasks[key] = task
            self._forget()
        self.move(key, status)

    def finish(self, pod: Pod) -> None:
        """A pod has done its work."""
        self._discount(pod.key)
        self.tasks.pop(pod.key, None)
        self.finished[pod.key] = pod
        self._forget()
        self.move(pod.key, PodStatus.SUCCEEDED)

    def drop(self, key: str) -> bool:
        """A pod is gone; whether it was the last one."""
        self._discount(key)
        self.tasks.pop(key, None)
        self.finished.pop(key, None)
        self._forget()
        return not self._statuses

    def move(self, key: str, status: PodStatus) -> None:
        """A pod stands elsewhere now."""
        if self._statuses is None:
            self._statuses, self._counts = {}, {None: [0] * len(_NO_PODS)}
        before = self._statuses.get(key)
        if before != status:
            self._statuses[key] = status
            self._count_move(key, before, status)

    def know(self, group: Group | None, queue: str, priority: int | None) -> None:
        """Take over what is known of its group."""
        roles = self.roles
        self.group, self.queue, self.class_priority = group, queue, priority
        self._forget()
        if self._statuses is not None and self.roles != roles:
            self._counts = {None: [0] * len(_NO_PODS)}
            for key, status in self._statuses.items():
                self._count_move(key, None, status)

    def _discount(self, key: str) -> None:
        if self._statuses is not None and key in self._statuses:
            self._count_move(key, self._statuses[key], None)
            del self._statuses[key]

    def _count_move(self, key: str, before: PodStatus | None, after: PodStatus | None) -> None:
        """Count a pod that has moved, among all and among those of its role if that matters."""
        parts = [self._counts[None]]
        if self.group is not None and self.group.roles:
            pod = self.tasks[key].pod if key in self.tasks else self.finished[key]
            parts.append(self._counts.setdefault(self.group.role(pod), [0] * len(_NO_PODS)))
        for counts in parts:
            if before is not None:
                counts[before] -= 1
            if after is not None:
                counts[after] += 1

    def _forget(self) -> None:
        self._priority = self._created = self._preemptible = self._facts = None
        self._constraint = _UNKNOWN


def _is_preemptible(task: Task, otherwise: bool) -> bool:
    """Whether a pod may be stopped to make room for others, by what it says or is."""
    labels, annotations = task.pod.labels, task.annotations
    said = labels.get(KAI_LABEL)
    if said is not None:
        return said == "preemptible"
    said = annotations.get(VOLCANO_KEY, labels.get(VOLCANO_KEY))
    if said is not None:
        return said in _TRUE
    return otherwise or VOLCANO_GROUP in annotations or task.pod.spec.schedulerName == VOLCANO
