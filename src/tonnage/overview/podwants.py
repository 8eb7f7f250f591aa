"""Words about pods that fit a table: what a pod asks for."""

from tonnage.cluster.task import Task
from tonnage.devices.base import PERCENTAGE_UNSET


def asks(task: Task) -> str:
    """What a pod wants, in a few words."""
    wants = []
    for demand in task.demands:
        for request in demand.requests:
            parts = [f"{request.count} GPU"]
            if request.percentage == PERCENTAGE_UNSET or request.memory:
                parts.append(f"{request.memory / 1024:.3g}G")
            elif request.percentage != 100:
                parts.append(f"{request.percentage}%")
            if request.cores and request.cores != request.percentage:
                parts.append(f"{request.cores}% cores")
            wants.append(" ".join(parts))
    if not wants:
        needs = dict(task.requests)
        wants = [f"{needs.get('cpu', 0) / 1000:g} CPU"]
    kinds = [value for name, value in task.constraints if name.endswith("use-gputype")]
    return " + ".join(wants) + (f" of {kinds[0]}" if kinds else "")
