"""Tasks: pods with their requirements on nodes, and what each container requests of cards, worked out once."""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar

import msgspec

from tonnage.cluster.memo import Memo
from tonnage.cluster.podrules import PodRules, pod_rules
from tonnage.devices.base import DeviceRequest, RequestError, Vendor
from tonnage.model.meta import NOTHING
from tonnage.model.pod import Container, Pod, PodSpec
from tonnage.model.quantity import QuantityError
from tonnage.model.resources import (
    NATIVE,
    PODS,
    Additions,
    NegativeAmountError,
    effective_request,
    show,
    unstated,
    without_nonsense,
)
from tonnage.model.wire import comparable

T = TypeVar("T", bound=Hashable)

INIT, SIDECAR, APP = "init", "sidecar", "app"

Requests = tuple[tuple[str, int], ...]
"""Resource names and amounts, by name."""


class Demand(msgspec.Struct, gc=False, frozen=True, cache_hash=True):
    """The device requests of one container; its position is that in device annotations."""

    position: int
    container: str
    kind: str
    requests: tuple[DeviceRequest, ...]


class Task(msgspec.Struct, gc=False):
    """A pod with its requirements, worked out once."""

    pod: Pod
    """The pod itself, as Kubernetes has it."""
    key: str
    """Namespace and name."""
    requests: Requests
    """What all containers together request of each resource, by name; CPU in thousandths, memory in bytes."""
    demands: tuple[Demand, ...]
    """What each container requests of cards."""
    kinds: tuple[str, ...]
    """The kind of each container in the order of device annotations: init container, sidecar or app container."""
    fault: str = ""
    """Why the pod's requests are invalid, if they are."""
    selection: bytes = b""
    """Selector, affinity and tolerations in one comparable text; empty if the pod has none of them."""
    annotations: dict[str, str] = NOTHING
    """The pod's annotations."""
    constraints: tuple[tuple[str, str], ...] = ()
    """The annotations that change which cards the pod accepts."""
    rules: PodRules | None = None
    """Inter-pod affinity, topology spread, host ports and claims; nothing if the pod has none of them."""
    unstated: Additions = (0, 0)
    """What containers without requests add in Kubernetes' scores."""
    images: tuple[str, ...] = ()
    """The images of its containers."""

    @property
    def name(self) -> str:
        """The name without the namespace."""
        return self.pod.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace; `default` if the pod has none."""
        return self.pod.metadata.namespace or "default"

    @property
    def uid(self) -> str | None:
        """The pod's UID, if it has one."""
        return self.pod.metadata.uid

    @property
    def created(self) -> str:
        """The creation time as Kubernetes writes it; empty if it is unknown."""
        return self.pod.metadata.creationTimestamp or ""

    @property
    def priority(self) -> int:
        """The pod's priority, 0 if it has none."""
        return self.pod.spec.priority or 0

    @property
    def is_best_effort(self) -> bool:
        """Whether the pod requests no resources."""
        return not self.demands and all(name == PODS for name, _ in self.requests)

    @property
    def order(self) -> tuple[int, str, str]:
        """Higher priority first, then the older, then by name."""
        return (-self.priority, self.pod.metadata.creationTimestamp or "", self.key)


requests_of = attrgetter("requests")
"""The memo key of answers that depend only on a pod's requests; points that share a key function share one lookup."""
counted_of = attrgetter("requests", "unstated")
"""The same for answers that also count containers without requests."""
selection_of = attrgetter("selection")
"""The same for answers that depend on node selection."""


def containers_of(pod: Pod) -> list[tuple[Container, str]]:
    """All containers in the order of device annotations, with their kind."""
    first = [(c, SIDECAR if c.is_sidecar else INIT) for c in pod.spec.initContainers or []]
    return first + [(c, APP) for c in pod.spec.containers]


class VendorNames:
    """The vendors by resource name, so that a container is read only by the vendors it concerns."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self.vendors = vendors
        self.numbers: dict[str, list[int]] = {}
        for number, vendor in enumerate(vendors):
            for name in (vendor.count_resource, *vendor.side_resources):
                self.numbers.setdefault(name, []).append(number)
        self.side = frozenset(name for vendor in vendors for name in vendor.side_resources)
        self.sharing = {key: vendor for vendor in vendors for key in vendor.sharing_annotations}
        self.policy = frozenset(key for vendor in vendors for key in vendor.policy_annotations)

    def requests(self, container: Container, annotations: Mapping[str, str]) -> tuple[DeviceRequest, ...]:
        """What a container requests of each vendor's cards."""
        resources = container.resources
        concerned = {
            number
            for part in (resources.limits, resources.requests)
            if part
            for name in part
            for number in self.numbers.get(name, ())
        }
        asked = [self.vendors[number].request(container, annotations) for number in sorted(concerned)]
        return tuple([request for request in asked if request is not None])

    def asking(self, annotations: dict[str, str]) -> dict[str, str]:
        """The annotations that requirements depend on; of a pod that asks for parts of cards, all of them."""
        if not self.sharing.keys().isdisjoint(annotations):
            return annotations
        return {key: text for key, text in annotations.items() if key in self.policy}

    def shared(self, pod: Pod) -> dict[int, DeviceRequest]:
        """The device requests that annotations make in place of resources, by position of the container."""
        vendors = dict.fromkeys(self.sharing[key] for key in pod.annotations if key in self.sharing)
        return dict(found for found in [vendor.shared_request(pod) for vendor in vendors] if found is not None)


@lru_cache(maxsize=16)
def _vendor_names(vendors: tuple[Vendor, ...]) -> VendorNames:
    return VendorNames(vendors)


def _refuse_both(container: Container, asked: Sequence[DeviceRequest], shared: Mapping[int, DeviceRequest]) -> None:
    for request in asked:
        if any(part.vendor == request.vendor for part in shared.values()):
            raise RequestError(
                f"container {container.name!r} asks for {request.vendor} cards by its resources, "
                f"and annotations ask for parts of such cards; keep one of them"
            )


def device_demands(pod: Pod, vendors: Sequence[Vendor]) -> list[Demand]:
    """What the containers of a pod request of cards; RequestError or QuantityError if that is invalid."""
    return _demands(pod, containers_of(pod), _vendor_names(tuple(vendors)))


def _demands(pod: Pod, containers: Sequence[tuple[Container, str]], names: VendorNames) -> list[Demand]:
    demands: list[Demand] = []
    shared = names.shared(pod) if pod.annotations else {}
    for position, (container, kind) in enumerate(containers):
        asked = names.requests(container, pod.annotations)
        if shared:
            _refuse_both(container, asked, shared)
            asked += (shared[position],) if position in shared else ()
        if asked:
            demands.append(Demand(position, container.name, kind, asked))
    return demands


@lru_cache(maxsize=4096)
def _one_of_equals(things: T) -> T:
    """The same object for all equal ones, because decisions compare them and identity is compared first."""
    return things


def make_task(pod: Pod, vendors: Sequence[Vendor]) -> Task:
    """Make the task of a pod; it never fails, an invalid request becomes the task's fault."""
    names = _vendor_names(tuple(vendors))
    containers = containers_of(pod)
    demands: list[Demand] = []
    fault = ""
    try:
        demands = _demands(pod, containers, names)
        needs = effective_request(pod)
    except (RequestError, QuantityError, NegativeAmountError) as error:
        fault = str(error)
        demands = []
        needs = effective_request(without_nonsense(pod))
    requests = tuple(sorted([(name, value) for name, value in needs.items() if name not in names.side]))
    spec = pod.spec
    selection = b""
    if spec.nodeSelector or spec.affinity or spec.tolerations:
        selection = comparable((spec.nodeSelector, spec.affinity, spec.tolerations))
    annotations = pod.annotations
    constraints: tuple[tuple[str, str], ...] = ()
    if annotations and demands:
        asked_vendors = {request.vendor for demand in demands for request in demand.requests}
        keys = {key for v in vendors if v.name in asked_vendors for key in v.policy_annotations}
        constraints = tuple((key, annotations[key]) for key in sorted(keys & annotations.keys()))
    kinds = tuple([kind for _, kind in containers])
    return Task(
        pod,
        pod.key,
        _one_of_equals(requests),
        _one_of_equals(tuple(demands)),
        kinds,
        fault,
        selection,
        annotations,
        constraints,
        pod_rules(pod),
        unstated(pod, needs),
        tuple([container.image_name for container, _ in containers if container.image]),
    )


class TaskMaker:
    """A maker of tasks that works out what equal specifications require once."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self._vendors = vendors
        self._names = _vendor_names(tuple(vendors))
        self._known: Memo[int, Task] = Memo()
        """By identity of the specification, which lives as long as the memoised task."""

    def make(self, pod: Pod, before: Task | None = None) -> Task:
        """The task of a pod; `before` is its task until now, because most changes of a pod do not change what it needs.

        A task with a fault is made anew: what could not be read then may be readable now.
        """
        is_usable = before is not None and not before.fault and _needs_the_same(before.pod.spec, pod.spec)
        known = before if is_usable else self._known.get(id(pod.spec))
        if known is not None and known.rules is None and self._asks_the_same(known.annotations, pod.annotations):
            return msgspec.structs.replace(known, pod=pod, key=pod.key, annotations=pod.annotations)
        return self._known.keep(id(pod.spec), make_task(pod, self._vendors))

    def _asks_the_same(self, before: dict[str, str], now: dict[str, str]) -> bool:
        return before == now or self._names.asking(before) == self._names.asking(now)


def _needs_the_same(before: PodSpec, now: PodSpec) -> bool:
    """Whether two specifications of one pod differ at most in the node that it has got."""
    if before.nodeName != now.nodeName:
        before = msgspec.structs.replace(before, nodeName=now.nodeName)
    return before == now


def asks(tasks: Sequence[Task]) -> str:
    """What pods request, for people: the number of pods of each size, the largest number first."""
    counts: dict[Requests, int] = {}
    for task in tasks:
        counts[task.requests] = counts.get(task.requests, 0) + 1
    kinds = sorted(counts.items(), key=lambda kind: (-kind[1], kind[0]))
    return " and ".join(f"{count} × {asked(requests)}" for requests, count in kinds)


def asked(requests: Requests) -> str:
    """What one pod requests, for people; cards first."""
    wanted = sorted([part for part in requests if part[0] != PODS], key=lambda part: (part[0] in NATIVE, part[0]))
    parts = [f"{show(name, amount)} {name}" for name, amount in wanted]
    return " with ".join([parts[0], " and ".join(parts[1:])]) if len(parts) > 1 else "".join(parts) or "nothing"
