"""Jobs: pods that are scheduled together, a plain pod being a job of one.

Whether a job may be stopped to make room for others is said by, in this order: the pod's label
`kai.scheduler/preemptibility` (`preemptible` or `non-preemptible`); its annotation or label `volcano.sh/preemptable`
(`true`, anything else means no); being one of Volcano's pods, which may be stopped unless they say otherwise; and
else its priority, which must be below 100, KAI's line between training and what people wait for.
"""

from tonnage.cluster.queue import DEFAULT_QUEUE
from tonnage.cluster.task import Task

KAI_LABEL = "kai.scheduler/preemptibility"
VOLCANO_KEY = "volcano.sh/preemptable"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO = "volcano"
NOT_PREEMPTIBLE_FROM = 100
"""The priority from which on a job keeps its place unless it says otherwise."""

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))


class Job:
    """Pods that start together or not at all."""

    __slots__ = ("_created", "_preemptible", "_priority", "key", "queue", "tasks")

    def __init__(self, key: str, tasks: dict[str, Task], queue: str = DEFAULT_QUEUE) -> None:
        self.key = key
        """Namespace and name."""
        self.tasks = tasks
        """Its pods by namespace and name, waiting and running ones alike."""
        self.queue = queue
        self._preemptible: bool | None = None
        self._priority: int | None = None
        self._created: str | None = None

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def priority(self) -> int:
        """That of its most important pod."""
        if self._priority is None:
            self._priority = max([task.priority for task in self.tasks.values()])
        return self._priority

    @property
    def created(self) -> str:
        """When its oldest pod was made."""
        if self._created is None:
            self._created = min([task.created for task in self.tasks.values()])
        return self._created

    @property
    def preemptible(self) -> bool:
        """Whether it may be stopped to make room for others; so only if all its pods may."""
        if self._preemptible is None:
            self._preemptible = all(is_preemptible(task) for task in self.tasks.values())
        return self._preemptible


def is_preemptible(task: Task) -> bool:
    """Whether a pod may be stopped to make room for others."""
    labels, annotations = task.pod.labels, task.annotations
    said = labels.get(KAI_LABEL)
    if said is not None:
        return said == "preemptible"
    said = annotations.get(VOLCANO_KEY, labels.get(VOLCANO_KEY))
    if said is not None:
        return said in _TRUE
    if VOLCANO_GROUP in annotations or task.pod.spec.schedulerName == VOLCANO:
        return True
    return task.priority < NOT_PREEMPTIBLE_FROM
