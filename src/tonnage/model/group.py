"""PodGroups and Queues of Volcano and KAI, and priority classes.

Both schedulers call their objects PodGroup and Queue; the version tells them apart. `cluster/jobs/group.py` and
`cluster/jobs/queue.py` make one form of both.
"""

from typing import Annotated, Any, Literal

import msgspec

from tonnage.model.meta import NOTHING, ObjectMeta
from tonnage.model.number import Int32
from tonnage.model.selection import LabelSelector

Quantities = dict[str, str | int | float]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Share = Annotated[float, msgspec.Meta(ge=-1, le=1e18)]
"""An amount; -1 means no limit."""


class NetworkTopology(msgspec.Struct, gc=False, frozen=True):
    """The HyperNodes that the pods of a Volcano PodGroup must stay within."""

    mode: Literal["hard", "soft", ""] = ""
    highestTierAllowed: Count | None = None
    highestTierName: str | None = None


class SubGroupPolicy(msgspec.Struct, gc=False, frozen=True):
    """How pods of a Volcano PodGroup are divided into subgroups that are placed whole, by their labels."""

    name: str = ""
    networkTopology: NetworkTopology | None = None
    subGroupSize: Count | None = None
    minSubGroups: Count | None = None
    labelSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None


class VolcanoGroupSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a Volcano PodGroup."""

    minMember: Count = 0
    minTaskMember: dict[str, Count] | None = None
    queue: str | None = None
    priorityClassName: str | None = None
    minResources: Quantities | None = None
    networkTopology: NetworkTopology | None = None
    subGroupPolicy: list[SubGroupPolicy] | None = None


class GroupStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a PodGroup. Tonnage reads only the phase; other controllers may write the rest."""

    phase: str | None = None
    conditions: Any = None
    scheduled: Any = None
    running: Any = None
    succeeded: Any = None
    failed: Any = None


class VolcanoPodGroup(msgspec.Struct, gc=False, frozen=True):
    """A Volcano PodGroup."""

    metadata: ObjectMeta
    spec: VolcanoGroupSpec = VolcanoGroupSpec()
    status: GroupStatus = GroupStatus()

    @property
    def key(self) -> str:
        return self.metadata.key


class CoschedulingPodGroup(VolcanoPodGroup, frozen=True):
    """A PodGroup of the coscheduling plugin, with a subset of Volcano's fields."""


class TopologyConstraint(msgspec.Struct, gc=False, frozen=True):
    """The domains of a Topology that the pods of a KAI PodGroup must stay within."""

    topology: str | None = None
    requiredTopologyLevel: str | None = None
    preferredTopologyLevel: str | None = None


class SubGroup(msgspec.Struct, gc=False, frozen=True):
    """A subgroup of a KAI PodGroup: pods with a minimum of their own, or the subgroups that name it as their parent."""

    name: str
    minMember: Count | None = None
    parent: str | None = None
    minSubGroup: Count | None = None
    topologyConstraint: TopologyConstraint | None = None


class KaiGroupSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a KAI PodGroup."""

    minMember: Count | None = None
    minSubGroup: Count | None = None
    queue: str | None = None
    priorityClassName: str | None = None
    preemptibility: Literal["preemptible", "non-preemptible", ""] | None = None
    subGroups: list[SubGroup] | None = None
    topologyConstraint: TopologyConstraint | None = None
    preemptionDelay: str | None = None
    stalenessGracePeriod: str | None = None


class KaiGroupStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a KAI PodGroup, written by other controllers; Tonnage does not read it."""

    schedulingConditions: Any = None


class KaiPodGroup(msgspec.Struct, gc=False, frozen=True):
    """A KAI PodGroup."""

    metadata: ObjectMeta
    spec: KaiGroupSpec = KaiGroupSpec()
    status: KaiGroupStatus = KaiGroupStatus()

    @property
    def key(self) -> str:
        return self.metadata.key

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or NOTHING


class Guarantee(msgspec.Struct, gc=False, frozen=True):
    """The resources reserved for a Volcano Queue even while it does not use them."""

    resource: Quantities | None = None


class VolcanoQueueSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a Volcano Queue."""

    weight: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 1
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    parent: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


class QueueStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a Volcano Queue: whether it takes jobs."""

    state: str | None = None
    allocated: Any = None
    """Written by other controllers; Tonnage does not read it."""


class VolcanoQueue(msgspec.Struct, gc=False, frozen=True):
    """A Volcano Queue."""

    metadata: ObjectMeta
    spec: VolcanoQueueSpec = VolcanoQueueSpec()
    status: QueueStatus = QueueStatus()


class KaiQueueResource(msgspec.Struct, gc=False, frozen=True):
    """A queue's share of one resource: GPUs in cards, CPU in millicores, memory in millions of bytes."""

    quota: Share = 0
    overQuotaWeight: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0
    limit: Share = -1


class KaiQueueResources(msgspec.Struct, gc=False, frozen=True):
    """A queue's shares."""

    gpu: KaiQueueResource = KaiQueueResource()
    cpu: KaiQueueResource = KaiQueueResource()
    memory: KaiQueueResource = KaiQueueResource()


class KaiQueueSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a KAI Queue."""

    parentQueue: str | None = None
    resources: KaiQueueResources = KaiQueueResources()
    priority: Int32 | None = None
    preemptMinRuntime: str | None = None
    reclaimMinRuntime: str | None = None


class KaiQueueStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a KAI Queue, written by other controllers; Tonnage does not read it."""

    allocated: Any = None
    allocatedNonPreemptible: Any = None
    requested: Any = None


class KaiQueue(msgspec.Struct, gc=False, frozen=True):
    """A KAI Queue."""

    metadata: ObjectMeta
    spec: KaiQueueSpec = KaiQueueSpec()
    status: KaiQueueStatus = KaiQueueStatus()


class PriorityClass(msgspec.Struct, gc=False, frozen=True):
    """A PriorityClass: a priority with a name."""

    metadata: ObjectMeta
    value: Int32


PodGroup = VolcanoPodGroup | KaiPodGroup
QueueObject = VolcanoQueue | KaiQueue
GroupObject = PodGroup | QueueObject | PriorityClass
"""Objects that form jobs and queues."""
