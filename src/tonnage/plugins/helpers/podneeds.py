"""What a pod needs of CPU and cards, as scores of packing count it."""

from collections.abc import Hashable

from tonnage.cluster.task import INIT, Task
from tonnage.devices.base import DeviceRequest
from tonnage.model.resources import CPU

Requests = tuple[DeviceRequest, ...]


def lasting_requests(task: Task) -> Requests:
    """What a pod asks of cards for as long as it runs; what init containers ask for if nothing else does."""
    lasting = tuple([request for demand in task.demands if demand.kind != INIT for request in demand.requests])
    return lasting or tuple([request for demand in task.demands for request in demand.requests])


def cpu_of(task: Task) -> int:
    """Processors that a pod requests, in thousandths."""
    return dict(task.requests).get(CPU, 0)


def needs_of(task: Task) -> Hashable:
    """A key for answers that depend on what a pod needs of processors and cards."""
    return cpu_of(task), task.demands, task.constraints
