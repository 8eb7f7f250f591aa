"""Queues: whose jobs take turns, in one form for Volcano's and KAI's."""

import math
from collections.abc import Mapping

import msgspec

from tonnage.model.duration import seconds
from tonnage.model.group import KaiQueue, KaiQueueResource, Quantities, QueueObject, VolcanoQueue
from tonnage.model.resources import amount

DEFAULT_QUEUE = "default"
KAI_DEFAULT_QUEUE = "default-queue"
ROOT = "root"
"""What Volcano calls the parent of all queues; it need not be given."""
GPU = "gpu"
"""Stands for cards of any vendor in KAI's shares; a part of a card counts as a part."""
KAI_PRIORITY = 100
_MEGABYTE = 1_000_000
_CLOSED = ("Closed", "Closing")

Shares = Mapping[str, float]
"""Amounts by resource: processors in thousandths, memory in bytes, others as they are; infinity for no bound."""
_NONE: Shares = {}


class Queue(msgspec.Struct, gc=False, frozen=True):
    """Jobs that are served together; without any queue given all jobs are in the default one."""

    name: str
    created: str = ""
    parent: str = ""
    """The queue it is a part of; empty if it stands at the top."""
    priority: int = 0
    weight: float = 1.0
    """Its part of what nobody has a right to, for every resource that `weights` does not name."""
    weights: Shares = _NONE
    deserved: Shares = _NONE
    """What it has a right to when all want more."""
    limit: Shares = _NONE
    """What it may never have more of; no bound on resources that are not named."""
    guarantee: Shares = _NONE
    """What is kept for it even while it does not use it."""
    reclaimable: bool = True
    """Whether others may take back what it has beyond its share."""
    preempt_min_runtime: float | None = None
    """Seconds for which its jobs may not be stopped for others of the queue; nothing if it does not say."""
    reclaim_min_runtime: float | None = None
    """Seconds for which its jobs may not be stopped for other queues; nothing if it does not say."""
    is_open: bool = True
    """Whether jobs may start."""
    by_kai: bool = False
    """Whether it was written for KAI."""


def read_queue(given: QueueObject) -> Queue:
    """A queue in the one form; quantities and durations must be readable."""
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
