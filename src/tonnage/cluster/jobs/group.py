"""Groups of pods in one form, from PodGroups of Volcano, KAI and coscheduling, or from annotations of pods."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from tonnage.cluster.jobs.queue import KAI_DEFAULT_QUEUE, Shares
from tonnage.cluster.jobs.subgroups import KAI_ROLE, SubGroups, SubGroupTree, by_names, by_policies
from tonnage.cluster.jobs.topologyconstraint import HyperNodeConstraint, LabelConstraint, constrained, in_network
from tonnage.cluster.task import Task
from tonnage.model.annotations import MAX_MEMBERS, MIN_MEMBERS, QUEUE
from tonnage.model.duration import DurationError, seconds
from tonnage.model.excerpt import quoted
from tonnage.model.group import KaiPodGroup, PodGroup
from tonnage.model.meta import NOTHING
from tonnage.model.number import LARGEST_COUNT, whole_number
from tonnage.model.pod import Pod
from tonnage.model.resources import amount
from tonnage.model.timestamp import known_timestamp

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
KAI_GROUP = "pod-group-name"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
VOLCANO_ROLE = "volcano.sh/task-spec"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
KAI_QUEUE = "kai.scheduler/queue"
LAST_START = "kai.scheduler/last-start-timestamp"
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"
SLA_WAITING_TIMES = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
NEW = ("", "Pending")
"""The phases of Volcano PodGroups that are not in the queue yet."""
LET_IN = "Inqueue"


class GroupTimes(msgspec.Struct, gc=False, frozen=True):
    """The times of a group in seconds since 1970, where known, and its delays in seconds, in KAI's terms."""

    started: float | None = None
    evicted: float | None = None
    stale_since: float | None = None
    """When it began to run with fewer pods than its minimum."""
    preemption_delay: float = 0.0
    """How long it waits after its creation or eviction before it may preempt."""
    grace: float | None = None
    """How long it may run with fewer pods than its minimum; negative for ever, nothing if unspecified."""
    unreadable: tuple[str, ...] = ()
    """Annotations that should be times and are not."""
    waiting_time: float | None = None
    """How long it may wait until it is due, as Volcano's plugin `sla` has it; nothing if unspecified."""


class Group(msgspec.Struct, gc=False, frozen=True):
    """A gang of pods: what its PodGroup or its pods specify."""

    key: str
    minimum: int
    """The number of pods that must have a place before any of them starts."""
    roles: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """The number of pods of each role among the minimum."""
    maximum: int | None = None
    """The number of pods that may have a place; nothing for no limit."""
    queue: str = ""
    priority_class: str = ""
    preemptible: bool | None = None
    """Whether it may be preempted; nothing if unspecified."""
    created: str = ""
    min_resources: Shares = msgspec.field(default_factory=dict[str, float])
    """The resources that must be free before it enters the queue."""
    phase: str = ""
    by_kai: bool = False
    fault: str = ""
    """Why it cannot be scheduled, whatever its pods."""
    near: LabelConstraint | None = None
    """The node label of which all its pods must find one value; nothing if unspecified."""
    network: HyperNodeConstraint | None = None
    """The HyperNodes that its pods must stay within."""
    subgroups: SubGroups | None = None
    """Its parts that are placed whole; nothing if the minima of roles say all."""
    without_effect: tuple[tuple[str, str], ...] = ()
    """Fields that are set and have no effect, with the reason."""
    is_object: bool = True
    """Whether it is a PodGroup, rather than made from annotations of its pods."""
    times: GroupTimes = GroupTimes()

    def role(self, pod: Pod) -> str:
        """The role of a pod: Volcano's task, KAI's subgroup."""
        if self.by_kai:
            return pod.labels.get(KAI_ROLE, "")
        return pod.annotations.get(VOLCANO_ROLE) or pod.labels.get(VOLCANO_ROLE, "")


class Link(NamedTuple):
    """The job that a pod names."""

    key: str
    strict: bool
    """Whether the pod waits until the group is known."""
    own: bool = False
    """Whether the minimum is an annotation of the pods."""


def link_of(pod: Pod) -> Link | None:
    """The job that a pod names, by order of precedence; nothing if it is a plain pod."""
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
        owner = metadata.controller
        return Link(f"{namespace}/{metadata.name if owner is None else owner.name}", strict=False, own=True)
    return None


def queue_named(pod: Pod) -> str:
    """The queue that a pod names; empty if it names none."""
    annotations, labels = pod.annotations, pod.labels
    return annotations.get(QUEUE) or annotations.get(VOLCANO_QUEUE) or labels.get(KAI_QUEUE, "")


def read_group(given: PodGroup) -> Group:
    """The group of a PodGroup, whose quantities must be readable."""
    key, created = given.key, given.metadata.creationTimestamp or ""
    annotations = given.metadata.annotations or NOTHING
    maximum, fault = _number(annotations, MAX_MEMBERS)
    if isinstance(given, KaiPodGroup):
        return _read_kai(given, created, maximum, fault)
    spec = given.spec
    roles = {role: count for role, count in (spec.minTaskMember or {}).items() if count}
    resources = {name: float(amount(name, value)) for name, value in (spec.minResources or {}).items()}
    subgroups, without_effect = by_policies(spec.subGroupPolicy or ())
    return Group(
        key,
        spec.minMember,
        # As in Volcano, the minima of roles count only if their sum is at most the minimum.
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
        subgroups=subgroups,
        without_effect=tuple(without_effect),
        times=read_times(annotations),
    )


def _read_kai(given: KaiPodGroup, created: str, maximum: int | None, fault: str) -> Group:
    spec = given.spec
    subgroups, wrong = by_names(spec.subGroups or (), spec.minSubGroup)
    is_choice = any(rule.needed is not None for rule in subgroups.rules.values())
    roles = {} if is_choice else {name: subgroups.rules[path].size for name, path in subgroups.named.items()}
    fault = fault or wrong
    least = SubGroupTree(subgroups).missing(lambda path: 0)
    least = max(spec.minMember or 0, least or (1 if spec.minMember is None else 0))
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
        subgroups=subgroups if is_choice or subgroups.constraints() else None,
        times=read_times(given.metadata.annotations or NOTHING, spec.preemptionDelay, spec.stalenessGracePeriod),
    )


def read_times(annotations: Mapping[str, str], delay: str | None = None, grace: str | None = None) -> GroupTimes:
    """The times in annotations and durations; the durations must be readable."""
    said = {name: known_timestamp(annotations.get(name)) for name in (LAST_START, LAST_EVICTION, STALE_SINCE)}
    return GroupTimes(
        said[LAST_START],
        said[LAST_EVICTION],
        said[STALE_SINCE],
        seconds(delay) if delay is not None else 0.0,
        seconds(grace, may_be_negative=True) if grace is not None else None,
        tuple(name for name, when in said.items() if when is None and annotations.get(name)),
        _waiting_time(annotations),
    )


def _waiting_time(annotations: Mapping[str, str]) -> float | None:
    """The first of the two annotations that is a duration above 0, as in Volcano."""
    for name in SLA_WAITING_TIMES:
        with suppress(DurationError):
            length = seconds(annotations.get(name, ""))
            if length > 0:
                return length
    return None


def own_group(key: str, tasks: Iterable[Task]) -> Group:
    """The group of pods without a PodGroup: the largest minimum and maximum among their annotations."""
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
    """A count from an annotation, and its fault."""
    text = annotations.get(name)
    if text is None:
        return None, ""
    number = whole_number(text, 1, LARGEST_COUNT)
    if number is None:
        return None, f"annotation {name} is {quoted(text)}; expected a whole number from 1 up"
    return number, ""
