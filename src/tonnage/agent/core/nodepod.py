"""The pods of the node as the agent sees them, and which devices each of their containers was given.

A record has a slot per container, but schedulers disagree about which containers have one. The slots belong to the
containers under that mapping by which every slot has as many devices as its container requests; if none fits, the pod
has a fault instead of devices.
"""

from collections.abc import Iterator, Sequence

import msgspec

from tonnage.agent.core.watchedpod import WatchedContainer, WatchedPod
from tonnage.cluster.holding import CardUse, card_uses
from tonnage.cluster.task import APP, INIT, SIDECAR
from tonnage.devices.base import ContainerUses, DecodeError, RequestError, Vendor, whole_number
from tonnage.model.meta import NOTHING
from tonnage.model.pod import Pod, PodSpec

DISABLE_CONTROL = "CUDA_DISABLE_CONTROL"
"""The variable by which a container turns limits off."""
_REJECTED = "UnexpectedAdmissionError"
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
"""How Go reads a true value."""


class NodeContainer(msgspec.Struct, gc=False, frozen=True):
    """A container that may ask for devices."""

    name: str
    kind: str
    count: int
    """Devices that it requests."""
    uses: ContainerUses = ()
    is_uncontrolled: bool = False
    """Whether it turns the limits of its devices off."""


class NodePod(msgspec.Struct, gc=False, frozen=True):
    """A pod of the node."""

    uid: str
    namespace: str
    name: str
    containers: tuple[NodeContainer, ...]
    """All, in the order in which the kubelet asks about them: init containers first."""
    fault: str = ""
    """Why it gets no devices, as a sentence; empty if it has what it requests."""
    is_over: bool = False
    is_rejected: bool = False
    """Whether the kubelet failed it because its devices could not be had."""
    is_terminating: bool = False
    """Whether it is being deleted, so that its containers may still run."""
    annotations: dict[str, str] = NOTHING

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def asks(self) -> bool:
        """Whether a container requests devices."""
        return any(container.count for container in self.containers)

    def cards(self) -> tuple[CardUse, ...]:
        """What it holds of each card, at the peak of its phases."""
        return card_uses([one.kind for one in self.containers], tuple(one.uses for one in self.containers))


def node_pod(pod: WatchedPod, vendor: Vendor) -> NodePod:
    """A watched pod with the devices that its annotations record."""
    annotations = pod.metadata.annotations or NOTHING
    views = [(one, SIDECAR if one.is_sidecar else INIT) for one in pod.spec.initContainers or []]
    views += [(one, APP) for one in pod.spec.containers]
    fault, containers = "", [NodeContainer(one.name, kind, 0) for one, kind in views]
    try:
        containers = [
            NodeContainer(
                one.name, kind, whole_number(one, vendor.count_resource) or 0, is_uncontrolled=_is_uncontrolled(one)
            )
            for one, kind in views
        ]
        if any(container.count for container in containers):
            slots = vendor.decode_pod(_as_pod(pod))
            if slots is None:
                fault = f"was not placed by a scheduler: it has no annotation {vendor.allocated}"
            else:
                fault, containers = _filled(containers, slots, vendor.allocated)
    except RequestError as error:
        fault = f"has an invalid request: {error}"
    except DecodeError as error:
        fault = f"has a record that cannot be read: {vendor.allocated}: {error.position}: {error.message}"
    return NodePod(
        uid=pod.metadata.uid or "",
        namespace=pod.metadata.namespace or "default",
        name=pod.metadata.name,
        containers=tuple(containers),
        fault=fault,
        is_over=pod.status.phase in ("Succeeded", "Failed"),
        is_rejected=pod.status.phase == "Failed" and pod.status.reason == _REJECTED,
        is_terminating=pod.metadata.deletionTimestamp is not None,
        annotations=annotations,
    )


def _is_uncontrolled(container: WatchedContainer) -> bool:
    return any(one.name == DISABLE_CONTROL and one.value in _TRUE for one in container.env or ())


def _as_pod(pod: WatchedPod) -> Pod:
    spec = PodSpec(containers=list(pod.spec.containers), initContainers=list(pod.spec.initContainers or []) or None)
    return Pod(pod.metadata, spec)


def _filled(
    containers: Sequence[NodeContainer], slots: Sequence[ContainerUses], annotation: str
) -> tuple[str, list[NodeContainer]]:
    """The containers with their devices, and a fault if no mapping fits."""
    for positions in _mappings(containers, slots):
        given = dict(zip(positions, slots, strict=True))
        if all(len(given.get(place, ())) == container.count for place, container in enumerate(containers)):
            return "", [
                msgspec.structs.replace(container, uses=given.get(place, ()))
                for place, container in enumerate(containers)
            ]
    wanted = ", ".join(f"{container.name} {container.count}" for container in containers)
    found = ", ".join(str(len(slot)) for slot in slots)
    return f"has a record that does not match its containers: {annotation} has {found} devices, wanted are {wanted}", [
        *containers
    ]


def _mappings(containers: Sequence[NodeContainer], slots: Sequence[ContainerUses]) -> Iterator[list[int]]:
    """The positions of containers to which the slots may belong, likeliest first."""
    everyone = list(range(len(containers)))
    ordinary = [place for place in everyone if containers[place].kind == APP]
    filled = sum(bool(slot) for slot in slots)
    if len(slots) <= len(everyone):
        yield everyone[: len(slots)]
    if len(slots) <= len(ordinary):
        yield ordinary[: len(slots)]
    asking = [place for place in everyone if containers[place].count]
    if filled == len(slots) == len(asking):
        yield asking
