"""The index of jobs, queues and priority classes, kept current by events.

Pods belong to the job that they name, whether or not its group is known yet; groups, queues and priority classes may
come before or after their pods. A plain pod is a job of one, made on demand.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tonnage.cluster.jobs.group import LET_IN, NEW, Group, Link, link_of, own_group, queue_named, read_group
from tonnage.cluster.jobs.hierarchy import Hierarchy, hierarchy
from tonnage.cluster.jobs.job import Job, PodStatus, StatusOf
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE, Queue, read_queue
from tonnage.cluster.task import Task
from tonnage.model.annotations import renamed_keys, renamed_problem
from tonnage.model.group import CoschedulingPodGroup, GroupObject, PodGroup, PriorityClass, VolcanoPodGroup
from tonnage.model.kinds import KindRole, structs_of
from tonnage.model.pod import Pod
from tonnage.model.problem import Problem, annotation_field

T = TypeVar("T")

SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""The priority classes that every cluster has."""
_SYSTEM_PREFIX = "system-"
"""The prefix of priority classes that Kubernetes reserves for the system."""
_SYSTEM_NAMESPACE = "kube-system"


class Sources(Generic[T]):
    """Things that several kinds of objects define, such as queues of Volcano and KAI; the first kind has precedence."""

    def __init__(self, kinds: Sequence[type[Any]]) -> None:
        self._given: dict[type[Any], dict[str, T]] = {kind: {} for kind in kinds}

    def put(self, kind: type[Any], name: str, thing: T) -> T:
        """Keep what an object defines; the result is what counts under its name now."""
        self._given[kind][name] = thing
        return next(given[name] for given in self._given.values() if name in given)

    def drop(self, kind: type[Any], name: str) -> T | None:
        """Forget what an object defined; the result is what counts under its name now."""
        self._given[kind].pop(name, None)
        return next((given[name] for given in self._given.values() if name in given), None)

    def of(self, kind: type[Any]) -> Mapping[str, T]:
        """Everything that one kind of object defines."""
        return self._given[kind]

    def counted(self) -> dict[str, T]:
        """What counts under each name."""
        return {name: thing for given in reversed(self._given.values()) for name, thing in given.items()}

    def twice(self) -> Iterator[str]:
        """Names that more than one kind of object defines, sorted."""
        names = [name for given in self._given.values() for name in given]
        if len(names) > len(set(names)):
            yield from sorted({name for name in names if sum(name in given for given in self._given.values()) > 1})


def read_object(thing: GroupObject) -> Group | Queue | int:
    """What a group, queue or priority class specifies, whose quantities and durations must be readable."""
    if isinstance(thing, PriorityClass):
        return thing.value
    return read_group(thing) if isinstance(thing, PodGroup) else read_queue(thing)


class JobIndex:
    """Jobs by their pods, queues, and priority classes."""

    def __init__(self, status: StatusOf) -> None:
        self._status = status
        self.queues: dict[str, Queue] = {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)}
        self.groups: dict[str, Group] = {}
        self._given_groups = Sources[Group](structs_of(KindRole.POD_GROUP))
        self._given_queues = Sources[Queue](structs_of(KindRole.QUEUE))
        self.priorities = dict(SYSTEM_CLASSES)
        self.jobs: dict[str, Job] = {}
        """Jobs that pods name, by namespace and name."""
        self.of_pod: dict[str, Job] = {}
        """The job of each pod that names one."""
        self._links: dict[str, Link] = {}
        """The link of each job's pods."""
        self._hierarchy: Hierarchy | None = None
        self._new: dict[str, None] = {}
        """Volcano PodGroups that are not in the queue yet, in the order in which they came."""
        self._let_in: dict[str, str] = {}
        self._renamed: dict[str, list[tuple[str, str]]] = {}
        """Pods and PodGroups that use annotation keys of before the first release."""
        """Groups that entered the queue, with their creation time, until their object shows the phase."""
        self.unmanaged: dict[str, str] = {}
        """Waiting pods of other schedulers, with the group they name."""
        self._named_by_unmanaged: Counter[str] = Counter()
        self.expected: dict[str, str] = {}
        """Waiting pods that a controller is about to put into a group, with a sentence about that; the cluster's user
        says so, and for how long."""

    # -- objects

    def upsert(self, thing: GroupObject) -> None:
        """Add a group, queue or priority class, or change it."""
        self.take(thing, read_object(thing))

    def take(self, thing: GroupObject, said: Group | Queue | int) -> None:
        """Add or change an object, given what `read_object` has read of it."""
        name = thing.metadata.name
        if isinstance(said, Group):
            self._note_keys("PodGroup", said.key, thing.metadata.annotations)
            group = self._remembered(said)
            self.groups[said.key] = self._given_groups.put(type(thing), said.key, group)
            self._track_new(said.key)
            self._refresh(said.key)
        elif isinstance(said, Queue):
            self.queues[name] = self._given_queues.put(type(thing), name, said)
            self._hierarchy = None
        else:
            self.priorities[name] = said
            self._refresh_all()

    def remove(self, thing: GroupObject) -> None:
        """Forget a group, queue or priority class; the default queue stays, without a share of its own."""
        name = thing.metadata.name
        if isinstance(thing, PriorityClass):
            self.priorities.pop(name, None)
            self.priorities.update(SYSTEM_CLASSES)
            self._refresh_all()
        elif isinstance(thing, PodGroup):
            self._note_keys("PodGroup", thing.key, None)
            group = self._given_groups.drop(type(thing), thing.key)
            if group is None:
                self.groups.pop(thing.key, None)
            else:
                self.groups[thing.key] = group
            self._let_in.pop(thing.key, None)
            self._track_new(thing.key)
            self._refresh(thing.key)
        else:
            queue = self._given_queues.drop(type(thing), name)
            if queue is None and name != DEFAULT_QUEUE:
                self.queues.pop(name, None)
            else:
                self.queues[name] = queue or Queue(DEFAULT_QUEUE)
            self._hierarchy = None

    def given(self, kind: type[GroupObject]) -> Mapping[str, Group | Queue | int]:
        """What all objects of a kind define, by name, with the namespace where they have one."""
        if kind is PriorityClass:
            return self.priorities
        return self._given_groups.of(kind) if issubclass(kind, PodGroup) else self._given_queues.of(kind)

    def rebuild(self, tasks: Sequence[Task]) -> None:
        """Work out groups, queues and jobs anew from the objects, these pods, and the pods that have succeeded."""
        finished = [pod for job in self.jobs.values() for pod in job.finished.values()]
        _replace(self.groups, self._given_groups.counted())
        _replace(self.queues, {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE), **self._given_queues.counted()})
        self._hierarchy = None
        for key in {**self._new, **self._given_groups.of(VolcanoPodGroup)}:
            self._track_new(key)
        self._named_by_unmanaged = Counter(self.unmanaged.values())
        for part in (self.jobs, self.of_pod, self._links):
            part.clear()
        present = {task.key for task in tasks}
        for pod in finished:
            if pod.key not in present:
                self.finish(pod)
        for task in tasks:
            self.put(task, link_of(task.pod), self._status(task.key))

    def hierarchy(self) -> Hierarchy:
        """The hierarchy of queues."""
        if self._hierarchy is None:
            self._hierarchy = hierarchy(self.queues)
        return self._hierarchy

    # -- enqueueing

    def new_jobs(self, is_ours: Callable[[Pod], bool]) -> list[Job]:
        """Volcano jobs that are not in the queue yet and have pods without a node, or fewer pods than they start with.

        A job controller may create the others only once the group is in the queue. Groups are left out all of whose
        pods are those of other schedulers.
        """
        found = []
        for key in self._new:
            job = self.jobs.get(key)
            if job is None and not self._named_by_unmanaged[key]:
                job = Job(key, {})
                self._update_job(job, Link(key, strict=True))
                found.append(job)
            elif job is not None and (
                job.count(PodStatus.WAITING, PodStatus.PLACED, PodStatus.PIPELINED)
                or (job.lacking() and any(map(is_ours, job.pods())))
            ):
                found.append(job)
        return found

    def let_in(self, key: str) -> None:
        """Let a group into the queue; its object shows that only later."""
        group = self.groups.get(key)
        if group is None or group.phase not in NEW:
            return
        self._let_in[key] = group.created
        for kind in (VolcanoPodGroup, CoschedulingPodGroup):
            given = self._given_groups.of(kind).get(key)
            if given is not None:
                self.groups[key] = self._given_groups.put(kind, key, self._remembered(given))
        self._track_new(key)
        self._refresh(key)

    def _remembered(self, group: Group) -> Group:
        """A group with its decided phase, unless its object is further on or is a different one."""
        if group.key in self._let_in and group.phase in NEW and self._let_in[group.key] == group.created:
            return msgspec.structs.replace(group, phase=LET_IN)
        if not group.by_kai:
            self._let_in.pop(group.key, None)
        return group

    def _track_new(self, key: str) -> None:
        given = self._given_groups.of(VolcanoPodGroup).get(key)
        if given is not None and given.phase in NEW:
            self._new[key] = None
        else:
            self._new.pop(key, None)

    def put_unmanaged(self, pod: Pod) -> None:
        """Add a waiting pod of another scheduler."""
        link = link_of(pod)
        self.drop_unmanaged(pod.key)
        if link is not None:
            self.unmanaged[pod.key] = link.key
            self._named_by_unmanaged[link.key] += 1

    def drop_unmanaged(self, key: str) -> None:
        """Remove a pod that is gone, has a node, or waits for this scheduler."""
        group = self.unmanaged.pop(key, None)
        if group is not None:
            self._named_by_unmanaged[group] -= 1
            if not self._named_by_unmanaged[group]:
                del self._named_by_unmanaged[group]

    # -- pods

    def put(self, task: Task, link: Link | None, status: PodStatus) -> None:
        """Add a pod to the job that it names by `link_of`, or change it."""
        if task.key in self.of_pod and (link is None or self.of_pod[task.key].key != link.key):
            self.drop(task.key)
        self._note_keys("Pod", task.key, task.pod.metadata.annotations)
        if link is None:
            return
        job = self._join(task.key, link)
        known = job.tasks.get(task.key)
        is_first = not job.tasks
        job.put(task, status)
        if is_first or (known is not None and known.pod.metadata != task.pod.metadata) or self._says_more(task, job):
            self._refresh(link.key)

    @staticmethod
    def _says_more(task: Task, job: Job) -> bool:
        """Whether a pod's annotations raise the minimum or maximum of a group without an object."""
        group = job.group
        if group is None or group.is_object:
            return False
        said = own_group(job.key, [task])
        return said.minimum > group.minimum or (said.maximum or 0) > (group.maximum or 0) or said.fault != group.fault

    def finish(self, pod: Pod) -> None:
        """Count a succeeded pod for its job until it is gone."""
        link = link_of(pod)
        if link is not None:
            self._join(pod.key, link).finish(pod)

    def drop(self, key: str) -> None:
        """Remove a pod that is gone."""
        self._note_keys("Pod", key, None)
        job = self.of_pod.pop(key, None)
        if job is not None and job.drop(key):
            del self.jobs[job.key]
            del self._links[job.key]

    def _join(self, key: str, link: Link) -> Job:
        job = self.jobs.get(link.key)
        if job is None:
            job = self.jobs[link.key] = Job(link.key, {})
            self._links[link.key] = link
            self._refresh(link.key)
        self.of_pod[key] = job
        return job

    def job_of(self, task: Task) -> Job:
        """The job that a pod belongs to, even if the pod is not in the index."""
        job = self.of_pod.get(task.key)
        if job is not None:
            return job
        pod = task.pod
        if not task.annotations and not pod.metadata.labels:
            return Job(task.key, {task.key: task}, status_of=self._status)
        link = link_of(pod)
        if link is not None and link.key in self.jobs:
            return self.jobs[link.key]
        job = Job(task.key, {task.key: task}, queue_named(pod) or DEFAULT_QUEUE, status_of=self._status)
        if link is not None:
            job.key = link.key
            self._update_job(job, link)
        return job

    def queue_of(self, task: Task) -> str:
        """The queue of a pod's job."""
        job = self.of_pod.get(task.key)
        return (queue_named(task.pod) or DEFAULT_QUEUE) if job is None else job.queue

    # -- groups of jobs

    def _refresh_all(self) -> None:
        for key in self.jobs:
            self._refresh(key)

    def _refresh(self, key: str) -> None:
        if key in self.jobs:
            self._update_job(self.jobs[key], self._links[key])

    def _update_job(self, job: Job, link: Link) -> None:
        """Give a job its group, queue and priority."""
        group = self.groups.get(link.key)
        if group is None and link.own:
            group = own_group(link.key, job.tasks.values())
        job.is_lost = group is None and link.strict
        queue = group.queue if group is not None else ""
        if not queue:
            queue = next((name for task in job.tasks.values() if (name := queue_named(task.pod))), DEFAULT_QUEUE)
        named = group.priority_class if group is not None and not _is_reserved_class(group) else ""
        job.set_group(group, queue, self.priorities.get(named))

    # -- problems

    def problems(self) -> Iterator[Problem]:
        """The problems of queues, then of groups, each in the order of names."""
        yield from self.hierarchy().problems
        for name in self._given_queues.twice():
            yield _given_twice(f"Queue/{name}", "Volcano's counts")
        for key in self._given_groups.twice():
            yield _given_twice(f"PodGroup/{key}", "Volcano's counts, or else KAI's")
        for key in sorted(self.groups):
            yield from self._problems_of(self.groups[key])
        for key in sorted(self.jobs):
            job = self.jobs[key]
            if job.group is not None and not job.group.is_object and job.group.fault:
                yield Problem(f"Pod/{min(job.tasks, default=key)}", "metadata.annotations", "", "", job.group.fault)

        for name in sorted(self._renamed):
            yield from (renamed_problem(name, old, new) for old, new in self._renamed[name])

    def _note_keys(self, kind: str, key: str, annotations: Mapping[str, str] | None) -> None:
        found = renamed_keys(annotations) if annotations else None
        if found:
            self._renamed[f"{kind}/{key}"] = found
        elif self._renamed:
            self._renamed.pop(f"{kind}/{key}", None)

    def _problems_of(self, group: Group) -> Iterator[Problem]:
        name = f"PodGroup/{group.key}"
        if group.queue and group.queue not in self.queues:
            message = f"there is no queue {group.queue}; its pods wait"
            yield Problem(name, "spec.queue", "", "a queue that exists", message)
        if _is_reserved_class(group):
            message = f"{group.priority_class} is for pods of the system; the priority of its pods counts"
            yield Problem(name, "spec.priorityClassName", "", f"no {_SYSTEM_PREFIX}* class in this namespace", message)
        elif group.priority_class and group.priority_class not in self.priorities:
            message = f"there is no priority class {group.priority_class}; the priority of its pods counts"
            yield Problem(name, "spec.priorityClassName", "", "a PriorityClass that exists", message)
        if group.fault:
            yield Problem(name, "spec", "", "", f"{group.fault}; its pods wait")
        for field, message in group.without_effect:
            yield Problem(name, field, "", "", message)
        for annotation in group.times.unreadable:
            message = "it is no time, and counts as if it were absent"
            yield Problem(name, annotation_field(annotation), "", "a time such as 2026-01-31T12:00:00Z", message)
        job = self.jobs.get(group.key)
        if job is not None and job.count(PodStatus.WAITING) and len(job.tasks) + len(job.finished) < group.minimum:
            pods = len(job.tasks) + len(job.finished)
            message = f"{group.minimum} pods must start together, and there are {pods}; they wait"
            yield Problem(name, "spec.minMember", "", f"at most {pods}", message)


def _replace(things: dict[str, T], others: Mapping[str, T]) -> None:
    """Replace all entries of a dictionary that others hold on to."""
    things.clear()
    things.update(others)


def _is_reserved_class(group: Group) -> bool:
    """Whether a PodGroup outside of the system's namespace names a priority class of the system.

    The API server checks which classes pods may use, but not which ones PodGroups name.
    """
    namespace = group.key.partition("/")[0]
    return group.priority_class.startswith(_SYSTEM_PREFIX) and namespace != _SYSTEM_NAMESPACE


def _given_twice(name: str, rule: str) -> Problem:
    message = f"objects of several schedulers have this name; {rule}"
    return Problem(name, "metadata.name", "", "each name once", message)
