"""Groups of pods in one form: PodGroups of Volcano and KAI, and pods that say themselves that they belong together."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tonnage.cluster.jobs.grouptimes import GroupTimes, read_times
from tonnage.cluster.jobs.queue import KAI_DEFAULT_QUEUE, Shares
from tonnage.cluster.jobs.topologyconstraint import HyperNodeConstraint, LabelConstraint, constrained, in_network
from tonnage.cluster.task import Task
from tonnage.model.annotations import MAX_MEMBERS, MIN_MEMBERS, QUEUE
from tonnage.model.group import KaiPodGroup, PodGroup
from tonnage.model.meta import NOTHING
from tonnage.model.pod import Pod
from tonnage.model.resources import amount

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
KAI_GROUP = "pod-group-name"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
VOLCANO_ROLE = "volcano.sh/task-spec"
KAI_ROLE = "kai.scheduler/subgroup-name"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
KAI_QUEUE = "kai.scheduler/queue"
NEW = ("", "Pending")
"""Phases of groups that are not let in yet."""
LET_IN = "Inqueue"
_LARGEST = 2**31 - 1


class Group(msgspec.Struct, gc=False, frozen=True):
    """What is said about pods that start together."""

    key: str
    minimum: int
    """How many pods must have a place before any of them starts."""
    roles: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """How many of them must be of each role."""
    maximum: int | None = None
    """How many pods may have a place; nothing if all may."""
    queue: str = ""
    priority_class: str = ""
    preemptible: bool | None = None
    """Whether it may be stopped for others; nothing if it does not say."""
    created: str = ""
    min_resources: Shares = msgspec.field(default_factory=dict[str, float])
    """What must be free before it is looked at."""
    phase: str = ""
    by_kai: bool = False
    fault: str = ""
    """Why it cannot be scheduled whatever its pods are like."""
    near: LabelConstraint | None = None
    """Within one value of which node label its pods are to be; nothing if it does not say."""
    network: HyperNodeConstraint | None = None
    """Within which HyperNodes they are to be."""
    unread: tuple[str, ...] = ()
    """What it says and what has no effect."""
    is_object: bool = True
    """Whether it is an object of the cluster, and not put together from annotations of its pods."""
    times: GroupTimes = GroupTimes()

    def role(self, pod: Pod) -> str:
        """The part that a pod plays."""
        if self.by_kai:
            return pod.labels.get(KAI_ROLE, "")
        return pod.annotations.get(VOLCANO_ROLE) or pod.labels.get(VOLCANO_ROLE, "")


class Link(NamedTuple):
    """Which job a pod says it belongs to."""

    key: str
    strict: bool
    """Whether the pod must wait as long as nothing is known about the group."""
    own: bool = False
    """Whether the pods say themselves how many they must be."""


def link_of(pod: Pod) -> Link | None:
    """The job that a pod names, by what counts most; nothing if it stands alone."""
    metadata = pod.metadata
    annotations, labels = metadata.annotations or NOTHING, metadata.labels or NOTHING
    if not annotations and not labels:
        return None
    namespace = metadata.namespace or "default"
    name = annotations.get(VOLCANO_GROUP) or annotations.get(KAI_GROUP)
    if name:
        return Link(f"{namespace}/{name}", strict=True)
    name = labels.get(COSCHEDULING_GROUP)
    if name:
        return Link(f"{namespace}/{name}", strict=False)
    if MIN_MEMBERS in annotations:
        owner = next((one.name for one in metadata.ownerReferences or () if one.controller), metadata.name)
        return Link(f"{namespace}/{owner}", strict=False, own=True)
    return None


def queue_named(pod: Pod) -> str:
    """The queue that a pod says it waits in; empty if it does not."""
    annotations, labels = pod.annotations, pod.labels
    return annotations.get(QUEUE) or annotations.get(VOLCANO_QUEUE) or labels.get(KAI_QUEUE, "")


def read_group(given: PodGroup) -> Group:
    """A PodGroup in the one form; its quantities must be readable."""
    key, created = given.key, given.metadata.creationTimestamp or ""
    annotations = given.metadata.annotations or NOTHING
    maximum, fault = _number(annotations, MAX_MEMBERS)
    if isinstance(given, KaiPodGroup):
        return _read_kai(given, created, maximum, fault)
    spec = given.spec
    roles = {role: count for role, count in (spec.minTaskMember or {}).items() if count}
    resources = {name: float(amount(name, value)) for name, value in (spec.minResources or {}).items()}
    return Group(
        key,
        spec.minMember,
        # As in Volcano, minima of roles count only if all of them together fit into the minimum.
        roles if sum(roles.values()) <= spec.minMember else {},
        maximum,
        spec.queue or "",
        spec.priorityClassName or "",
        created=created,
        min_resources=resources,
        phase=given.status.phase or "",
        fault=fault or _contradiction(spec.minMember, maximum),
        near=constrained(None, annotations),
        network=in_network(spec.networkTopology),
        unread=("spec.subGroupPolicy",) if spec.subGroupPolicy else (),
        times=read_times(annotations),
    )


def _read_kai(given: KaiPodGroup, created: str, maximum: int | None, fault: str) -> Group:
    spec = given.spec
    parts = spec.subGroups or []
    inner = {part.parent for part in parts}
    roles = {part.name: 1 if part.minMember is None else part.minMember for part in parts if part.name not in inner}
    if spec.minSubGroup is not None or any(part.minSubGroup is not None for part in parts):
        fault = fault or "minSubGroup is not understood; give minMember to every subgroup"
    least = max(spec.minMember or 0, sum(roles.values()) or (1 if spec.minMember is None else 0))
    said = spec.preemptibility
    return Group(
        given.key,
        least,
        roles,
        maximum,
        spec.queue or given.labels.get(KAI_QUEUE) or KAI_DEFAULT_QUEUE,
        spec.priorityClassName or "",
        said == "preemptible" if said else None,
        created,
        by_kai=True,
        fault=fault or _contradiction(least, maximum),
        near=constrained(spec.topologyConstraint, given.metadata.annotations or NOTHING),
        unread=tuple(
            f"spec.subGroups[{number}].topologyConstraint"
            for number, part in enumerate(parts)
            if part.topologyConstraint is not None
        ),
        times=read_times(given.metadata.annotations or NOTHING, spec.preemptionDelay, spec.stalenessGracePeriod),
    )


def own_group(key: str, tasks: Iterable[Task]) -> Group:
    """What pods without a PodGroup say about themselves: the largest of what each of them says."""
    minimum, maximum, fault = 1, 0, ""
    for task in tasks:
        least, wrong = _number(task.annotations, MIN_MEMBERS)
        most, also_wrong = _number(task.annotations, MAX_MEMBERS)
        minimum, maximum = max(minimum, least or 0), max(maximum, most or 0)
        fault = fault or wrong or also_wrong
    fault = fault or _contradiction(minimum, maximum or None)
    return Group(key, minimum, maximum=maximum or None, fault=fault, is_object=False)


def _contradiction(minimum: int, maximum: int | None) -> str:
    if maximum is None or maximum >= minimum:
        return ""
    return f"at most {maximum} pods may have a place, fewer than the {minimum} it starts with"


def _number(annotations: Mapping[str, str], name: str) -> tuple[int | None, str]:
    """A count from an annotation, and what is wrong with it."""
    text = annotations.get(name)
    if text is None:
        return None, ""
    if text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= _LARGEST:
        return int(text), ""
    return None, f"annotation {name} is {text[:40]!r}; expected a whole number from 1 up"
