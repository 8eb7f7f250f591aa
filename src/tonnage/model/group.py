"""Groups of pods and the queues they wait in, as Volcano and KAI write them, and priority classes.

Both schedulers call their objects PodGroup and Queue; the version tells them apart. `cluster/jobs/group.py` and
`cluster/jobs/queue.py` make one form of both.
"""

from typing import Annotated, Any, Literal

import msgspec

from tonnage.model.meta import NOTHING, ObjectMeta

Quantities = dict[str, str | int | float]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Share = Annotated[float, msgspec.Meta(ge=-1, le=1e18)]
"""An amount; -1 stands for no bound."""


class NetworkTopology(msgspec.Struct, gc=False, frozen=True):
    """Within which HyperNodes the pods of a group of Volcano's are to be."""

    mode: Literal["hard", "soft", ""] = ""
    highestTierAllowed: Count | None = None
    highestTierName: str | None = None


class SubGroupPolicy(msgspec.Struct, gc=False, frozen=True):
    """Parts of a group of Volcano's, of which only the name is read."""

    name: str = ""


class VolcanoGroupSpec(msgspec.Struct, gc=False, frozen=True):
    """What a group of Volcano's asks for."""

    minMember: Count = 0
    minTaskMember: dict[str, Count] | None = None
    queue: str | None = None
    priorityClassName: str | None = None
    minResources: Quantities | None = None
    networkTopology: NetworkTopology | None = None
    subGroupPolicy: list[SubGroupPolicy] | None = None


class GroupStatus(msgspec.Struct, gc=False, frozen=True):
    """How far a group has come. Only its phase is read; the rest is what others may have written."""

    phase: str | None = None
    conditions: Any = None
    scheduled: Any = None
    running: Any = None
    succeeded: Any = None
    failed: Any = None


class VolcanoPodGroup(msgspec.Struct, gc=False, frozen=True):
    """A PodGroup of Volcano."""

    metadata: ObjectMeta
    spec: VolcanoGroupSpec = VolcanoGroupSpec()
    status: GroupStatus = GroupStatus()

    @property
    def key(self) -> str:
        return self.metadata.key


class CoschedulingPodGroup(VolcanoPodGroup, frozen=True):
    """A PodGroup of the coscheduling plugin, which has fewer of the same fields."""


class TopologyConstraint(msgspec.Struct, gc=False, frozen=True):
    """Within which domains of a Topology the pods of a group of KAI's are to be."""

    topology: str | None = None
    requiredTopologyLevel: str | None = None
    preferredTopologyLevel: str | None = None


class SubGroup(msgspec.Struct, gc=False, frozen=True):
    """A part of a group of KAI's with a minimum of its own."""

    name: str
    minMember: Count | None = None
    parent: str | None = None
    minSubGroup: Count | None = None
    topologyConstraint: TopologyConstraint | None = None


class KaiGroupSpec(msgspec.Struct, gc=False, frozen=True):
    """What a group of KAI's asks for."""

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
    """What others may have written about a group of KAI's; nothing of it is read."""

    schedulingConditions: Any = None


class KaiPodGroup(msgspec.Struct, gc=False, frozen=True):
    """A PodGroup of KAI."""

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
    """What a queue of Volcano's keeps for itself even while it does not use it."""

    resource: Quantities | None = None


class VolcanoQueueSpec(msgspec.Struct, gc=False, frozen=True):
    """The share of a queue of Volcano's."""

    weight: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 1
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    parent: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


class QueueStatus(msgspec.Struct, gc=False, frozen=True):
    """Whether a queue takes jobs."""

    state: str | None = None
    allocated: Any = None
    """What others may have written; it is not read."""


class VolcanoQueue(msgspec.Struct, gc=False, frozen=True):
    """A Queue of Volcano."""

    metadata: ObjectMeta
    spec: VolcanoQueueSpec = VolcanoQueueSpec()
    status: QueueStatus = QueueStatus()


class KaiQueueResource(msgspec.Struct, gc=False, frozen=True):
    """A queue's share of one resource: GPUs in cards, processors in thousandths, memory in millions of bytes."""

    quota: Share = 0
    overQuotaWeight: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0
    limit: Share = -1


class KaiQueueResources(msgspec.Struct, gc=False, frozen=True):
    """A queue's shares."""

    gpu: KaiQueueResource = KaiQueueResource()
    cpu: KaiQueueResource = KaiQueueResource()
    memory: KaiQueueResource = KaiQueueResource()


class KaiQueueSpec(msgspec.Struct, gc=False, frozen=True):
    """The shares and rules of a queue of KAI's."""

    parentQueue: str | None = None
    resources: KaiQueueResources = KaiQueueResources()
    priority: int | None = None
    preemptMinRuntime: str | None = None
    reclaimMinRuntime: str | None = None


class KaiQueueStatus(msgspec.Struct, gc=False, frozen=True):
    """What others may have written about a queue of KAI's; nothing of it is read."""

    allocated: Any = None
    allocatedNonPreemptible: Any = None
    requested: Any = None


class KaiQueue(msgspec.Struct, gc=False, frozen=True):
    """A Queue of KAI."""

    metadata: ObjectMeta
    spec: KaiQueueSpec = KaiQueueSpec()
    status: KaiQueueStatus = KaiQueueStatus()


class PriorityClass(msgspec.Struct, gc=False, frozen=True):
    """A name for a priority."""

    metadata: ObjectMeta
    value: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


PodGroup = VolcanoPodGroup | KaiPodGroup
QueueObject = VolcanoQueue | KaiQueue
GroupObject = PodGroup | QueueObject | PriorityClass
"""Objects that say which pods belong together, and whose turn they wait for."""
