"""Faults of pods, nodes and quotas that their types do not exclude: bad quantities, ports, priorities and rules."""

from collections.abc import Iterator

import msgspec

from tonnage.cluster.jobs.validation import Fault, quantity_faults
from tonnage.cluster.podrules import pod_rules
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod
from tonnage.model.quota import ResourceQuota

_PRIORITIES = range(-(2**31), 2**31)
_PORTS = range(65536)
"""Port 0 means that none is requested."""


def _containers(path: str, containers: list[Container] | None) -> Iterator[Fault]:
    for i, container in enumerate(containers or ()):
        resources = container.resources
        for field, quantities in (("requests", resources.requests), ("limits", resources.limits)):
            for _, fault in quantity_faults(f"{path}[{i}].resources.{field}", quantities):
                yield fault
        for j, port in enumerate(container.ports or ()):
            if port.hostPort not in _PORTS:
                expected = "a port from 1 to 65535"
                yield Fault(f"{path}[{i}].ports[{j}].hostPort", expected, f"{port.hostPort} is no port")


def pod_faults(pod: Pod) -> list[Fault]:
    """Every fault that keeps a pod from being scheduled; a running pod holds its devices nevertheless."""
    faults = [
        *_containers("spec.initContainers", pod.spec.initContainers),
        *_containers("spec.containers", pod.spec.containers),
        *(fault for _, fault in quantity_faults("spec.overhead", pod.spec.overhead)),
    ]
    if pod.spec.priority is not None and pod.spec.priority not in _PRIORITIES:
        faults.append(Fault("spec.priority", "a whole number of 32 bits", f"{pod.spec.priority} is out of range"))
    rules = pod_rules(pod)
    if rules is not None:
        faults += [Fault(fault.path, "what Kubernetes accepts", fault.message) for fault in rules.faults]
    return faults


def mended_node(node: Node) -> tuple[Node, list[Fault]]:
    """The node with 0 in place of invalid quantities, and their faults."""
    faults: list[Fault] = []
    kept: dict[str, dict[str, str | int | float] | None] = {}
    for field, offered in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
        bad = dict(quantity_faults(f"status.{field}", offered))
        faults.extend(bad.values())
        kept[field] = {name: 0 if name in bad else value for name, value in offered.items()} if offered else offered
    if not faults:
        return node, faults
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, **kept)), faults


def mended_quota(quota: ResourceQuota) -> tuple[ResourceQuota, list[Fault]]:
    """The quota without invalid limits, and their faults."""
    bad = dict(quantity_faults("spec.hard", quota.spec.hard))
    if not bad:
        return quota, []
    kept = {name: value for name, value in (quota.spec.hard or {}).items() if name not in bad}
    return msgspec.structs.replace(quota, spec=msgspec.structs.replace(quota.spec, hard=kept)), list(bad.values())
