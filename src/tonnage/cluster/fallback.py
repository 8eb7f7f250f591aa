"""The fallback for a pod that cannot be read wholly: it counts with what is certain, and its cards never count as free.

A pod with a node that was known there keeps what it held. A new one holds what its requests and its allocation
annotation say, or else as many cards as it requests, without knowing which. A pod without a node waits, with a fault.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tonnage.cluster.cluster import PodReading
from tonnage.cluster.holding import Holding, HoldingReader, VendorUse
from tonnage.cluster.jobs.group import link_of
from tonnage.cluster.task import Requests, Task, containers_of, device_demands
from tonnage.devices.base import Vendor
from tonnage.model.meta import ObjectMeta
from tonnage.model.pod import Container, Pod, PodSpec
from tonnage.model.problem import Problem
from tonnage.model.quantity import whole
from tonnage.model.resources import PODS, Additions, effective_request, unstated, without_nonsense

_LONGEST_FAULT = 200


def fallback_reading(
    pod: Pod, known: Task | None, held: Holding | None, vendors: Sequence[Vendor], error: Exception
) -> PodReading:
    """What counts of a pod that cannot be read, given its task and its holding before; never fails."""
    fault = f"it cannot be read ({type(error).__name__}: {error})"[:_LONGEST_FAULT]
    if pod.node is None:
        return PodReading(_bare_task(pod, fault), None)
    effect = "it counts with what it requests and the cards that it has"
    problems = (Problem(f"Pod/{pod.key}", "", "", "", f"{fault}; {effect}"),)
    if known is not None and held is not None and held.node == pod.node and known.uid == pod.metadata.uid:
        return _as_before(pod, known, held, fault, problems)
    task = replace(_bare_task(pod, fault), requests=_requests(pod, vendors), unstated=_unstated(pod))
    return PodReading(task, None, _holding(pod, pod.node, task, vendors), problems)


def _as_before(pod: Pod, known: Task, held: Holding, fault: str, problems: tuple[Problem, ...]) -> PodReading:
    """What was known of a pod; only that it has a node, and whether it is being deleted, is news."""
    metadata = replace(known.pod.metadata, deletionTimestamp=pod.metadata.deletionTimestamp)
    before = replace(known.pod, metadata=metadata, spec=replace(known.pod.spec, nodeName=pod.node))
    return PodReading(replace(known, pod=before, fault=fault), link_of(before), held, problems)


def _bare_task(pod: Pod, fault: str) -> Task:
    """The task of a pod without anything that its user has written."""
    meta, spec = pod.metadata, pod.spec
    metadata = ObjectMeta(
        meta.name,
        meta.namespace,
        meta.uid,
        creationTimestamp=meta.creationTimestamp,
        deletionTimestamp=meta.deletionTimestamp,
    )
    bare = PodSpec(nodeName=spec.nodeName, priority=spec.priority, schedulerName=spec.schedulerName)
    return Task(Pod(metadata, bare, pod.status), pod.key, ((PODS, 1),), (), (), fault)


def _requests(pod: Pod, vendors: Sequence[Vendor]) -> Requests:
    side = {name for vendor in vendors for name in vendor.side_resources}
    try:
        needs = effective_request(without_nonsense(pod))
    except Exception:
        return ((PODS, 1),)
    return tuple(sorted((name, value) for name, value in needs.items() if name not in side))


def _unstated(pod: Pod) -> Additions:
    try:
        return unstated(pod, effective_request(without_nonsense(pod)))
    except Exception:
        return (0, 0)


def _holding(pod: Pod, node: str, task: Task, vendors: Sequence[Vendor]) -> Holding:
    """What a pod holds by its requests and its allocation annotation, or else as many cards as it requests."""
    try:
        kinds = tuple(kind for _, kind in containers_of(pod))
        demands = tuple(device_demands(pod, vendors))
        whole_task = replace(task, pod=pod, demands=demands, kinds=kinds, annotations=pod.annotations)
        read = {use.vendor: use for use in HoldingReader(whole_task).holding(node, vendors).vendors}
    except Exception:
        read = {}
    counts = [(number, _cards(pod, vendor)) for number, vendor in enumerate(vendors)]
    uses = [read.get(number) or VendorUse(number, unknown=count) for number, count in counts]
    return Holding(
        node, task.requests, tuple(use for use in uses if use.cards or use.unknown or use.groups), task.unstated
    )


def _cards(pod: Pod, vendor: Vendor) -> int:
    """How many of a vendor's cards a pod requests at most; one where the number cannot be read."""
    shares = any(key in pod.annotations for key in vendor.sharing_annotations)
    containers = [container for container, _ in containers_of(pod)]
    return max(sum(_asked(container, vendor.count_resource) for container in containers), int(shares))


def _asked(container: Container, resource: str) -> int:
    told = {**(container.resources.requests or {}), **(container.resources.limits or {})}
    if resource not in told:
        return 0
    try:
        return max(whole(told[resource]), 0)
    except ValueError:
        return 1
