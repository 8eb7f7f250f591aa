"""Queues in one form, from Queues of Volcano and KAI."""

import math
from collections.abc import Mapping

import msgspec

from tonnage.model.duration import seconds
from tonnage.model.group import KaiQueue, KaiQueueResource, Quantities, QueueObject, VolcanoQueue
from tonnage.model.resources import amount

DEFAULT_QUEUE = "default"
KAI_DEFAULT_QUEUE = "default-queue"
ROOT = "root"
"""Volcano's name for the parent of all queues, which need not exist as an object."""
GPU = "gpu"
"""Cards of any vendor in KAI's shares; a fraction of a card counts as a fraction."""
KAI_PRIORITY = 100
_MEGABYTE = 1_000_000
_CLOSED = ("Closed", "Closing")

Shares = Mapping[str, float]
"""Amounts by resource: CPU in millicores, memory in bytes, others in whole units; infinity for no limit."""
_NONE: Shares = {}


class Queue(msgspec.Struct, gc=False, frozen=True):
    """A queue of jobs; jobs that name none are in the default queue."""

    name: str
    created: str = ""
    parent: str = ""
    """Its parent queue; empty at the top."""
    priority: int = 0
    weight: float = 1.0
    """Its weight in sharing what no queue deserves, for every resource that `weights` does not name."""
    weights: Shares = _NONE
    deserved: Shares = _NONE
    """Its share when all queues want more: Volcano's deserved, KAI's quota."""
    limit: Shares = _NONE
    """The most that it may hold; resources that are not named have no limit."""
    guarantee: Shares = _NONE
    """What is reserved for it even while it does not use it."""
    reclaimable: bool = True
    """Whether other queues may reclaim what it holds beyond its share."""
    preempt_min_runtime: float | None = None
    """Seconds for which its jobs are safe from preemption within the queue; nothing if unspecified."""
    reclaim_min_runtime: float | None = None
    """Seconds for which its jobs are safe from reclaim by other queues; nothing if unspecified."""
    is_open: bool = True
    """Whether jobs may start."""
    by_kai: bool = False
    """Whether it is a KAI Queue."""


def read_queue(given: QueueObject) -> Queue:
    """The queue of a Queue object, whose quantities and durations must be readable."""
    name, created = given.metadata.name, given.metadata.creationTimestamp or ""
    if isinstance(given, VolcanoQueue):
        spec = given.spec
        return Queue(
            name,
            created,
            parent=spec.parent or "",
            priority=spec.priority,
            weight=float(spec.weight),
            deserved=_amounts(spec.deserved),
            limit=_amounts(spec.capability),
            guarantee=_amounts(spec.guarantee.resource),
            reclaimable=spec.reclaimable is not False,
            is_open=given.status.state not in _CLOSED,
        )
    return _read_kai(given, name, created)


def _read_kai(given: KaiQueue, name: str, created: str) -> Queue:
    spec = given.spec
    parts = {GPU: spec.resources.gpu, "cpu": spec.resources.cpu, "memory": spec.resources.memory}
    return Queue(
        name,
        created,
        parent=spec.parentQueue or "",
        priority=KAI_PRIORITY if spec.priority is None else spec.priority,
        weight=0.0,
        weights={resource: part.overQuotaWeight for resource, part in parts.items()},
        deserved={resource: _share(resource, part.quota) for resource, part in parts.items()},
        limit={resource: _share(resource, part.limit) for resource, part in parts.items() if _is_bound(part)},
        preempt_min_runtime=None if spec.preemptMinRuntime is None else seconds(spec.preemptMinRuntime),
        reclaim_min_runtime=None if spec.reclaimMinRuntime is None else seconds(spec.reclaimMinRuntime),
        by_kai=True,
    )


def _is_bound(part: KaiQueueResource) -> bool:
    return part.limit >= 0


def _share(resource: str, value: float) -> float:
    if value < 0:
        return math.inf
    return value * _MEGABYTE if resource == "memory" else value


def _amounts(quantities: Quantities | None) -> Shares:
    return {name: float(amount(name, quantity)) for name, quantity in (quantities or {}).items()}
