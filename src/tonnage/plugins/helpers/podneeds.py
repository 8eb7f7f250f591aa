"""Pod needs: CPU and card requests as packing scores count them."""

from collections.abc import Hashable

from tonnage.cluster.task import INIT, Task
from tonnage.devices.base import DeviceRequest
from tonnage.model.resources import CPU

Requests = tuple[DeviceRequest, ...]


def lasting_requests(task: Task) -> Requests:
    """The card requests of a pod's main containers; those of its init containers if there are no others."""
    lasting = tuple([request for demand in task.demands if demand.kind != INIT for request in demand.requests])
    return lasting or tuple([request for demand in task.demands for request in demand.requests])


def cpu_of(task: Task) -> int:
    """The CPU that a pod requests, in millicores."""
    return dict(task.requests).get(CPU, 0)


def needs_of(task: Task) -> Hashable:
    """The key of a score that depends on the CPU and cards a pod needs."""
    return cpu_of(task), task.demands, task.constraints
