"""Vendors that differ in names and units only, and what every vendor shares with them.

A plain vendor counts cards by one resource, qualifies them by memory and cores, and keeps what pods hold in a pair of
pod annotations of the common form. Vendors with more to say override one of the small steps.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tonnage.devices import codec
from tonnage.devices.base import (
    LARGEST_AMOUNT,
    MOST_DEVICES,
    NOT_MATCHED,
    PLAIN_MODE,
    WHOLE_CARD,
    Admission,
    AdmissionError,
    Change,
    DecodeError,
    Device,
    DeviceRequest,
    PodUses,
    RequestError,
    Vendor,
    uuid_lists,
    whole_number,
)
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod


@contextmanager
def refusing_nonsense() -> Iterator[None]:
    """At admission, a request that can never mean anything is refused with its reason."""
    try:
        yield
    except RequestError as error:
        raise AdmissionError(str(error)) from error


def by_container(uses: PodUses, pod: Pod) -> PodUses:
    """A pod's record with a slot for every container; schedulers before 2.9 left out the init containers."""
    init = len(pod.spec.initContainers or ())
    return ((),) * init + uses if init and len(uses) == len(pod.spec.containers) else uses


def named(*resources: str) -> tuple[str, ...]:
    """The resources that there are; one without a name cannot be asked for."""
    return tuple(name for name in resources if name)


class PlainVendor(Vendor):
    """Cards that are counted, with memory and cores on each."""

    def __init__(
        self,
        *,
        name: str,
        count_resource: str,
        memory_resource: str,
        cores_resource: str,
        record: str,
        use_uuids: str,
        refuse_uuids: str,
        register: str = "",
        handshake: str = "",
        memory_unit: int = 1,
        default_cores: int = 0,
    ) -> None:
        self.name = name
        self.count_resource = count_resource
        self.memory_resource = memory_resource
        self.cores_resource = cores_resource
        self.side_resources = named(memory_resource, cores_resource)
        self.to_allocate = f"{record}-to-allocate"
        self.allocated = f"{record}-allocated"
        self.use_uuids = use_uuids
        self.refuse_uuids = refuse_uuids
        self.policy_annotations = (use_uuids, refuse_uuids)
        self.register_annotations = (register,) if register else ()
        self.handshake_annotation = handshake
        self.memory_unit = memory_unit
        self.default_cores = default_cores

    def request(self, container: Container) -> DeviceRequest | None:
        count = whole_number(container, self.count_resource)
        if not count:
            return None
        memory = self.memory(container) or 0
        cores = whole_number(container, self.cores_resource)
        return DeviceRequest(
            vendor=self.name,
            count=count,
            memory=memory,
            percentage=0 if memory else WHOLE_CARD,
            cores=self.default_cores if cores is None else cores,
        )

    def memory(self, container: Container) -> int | None:
        """MiB that the container asks for on each card; nothing if it does not say."""
        unit = "MiB" if self.memory_unit == 1 else f"units of {self.memory_unit} MiB"
        units = whole_number(container, self.memory_resource, unit, (0, LARGEST_AMOUNT // self.memory_unit))
        return None if units is None else units * self.memory_unit

    def devices(self, node: Node) -> list[Device]:
        text = node.annotations.get(self.register_annotations[0])
        return [] if text is None else codec.decode_node(text)

    def uuid_lists(self, annotations: Mapping[str, str]) -> tuple[frozenset[str] | None, frozenset[str]]:
        return uuid_lists(annotations, self.use_uuids, self.refuse_uuids)

    def admit(self, container: Container) -> Admission:
        with refusing_nonsense():
            request = self.request(container)
        return NOT_MATCHED if request is None else Admission(True, self.changes(container, request))

    def changes(self, container: Container, request: DeviceRequest) -> tuple[Change, ...]:
        """What admission changes in a container that asks for this vendor's cards."""
        return ()

    def encode_pod(self, uses: PodUses, devices: Mapping[str, Device], now: int) -> dict[str, str]:
        if not any(uses):
            return {}
        text = codec.encode_pod(uses, self.name)
        return {self.to_allocate: text, self.allocated: text, **self.extras(uses, devices, now)}

    def extras(self, uses: PodUses, devices: Mapping[str, Device], now: int) -> dict[str, str]:
        """Annotations that only this vendor's device plugin reads."""
        return {}

    def decode_pod(self, pod: Pod) -> PodUses | None:
        text = pod.annotations.get(self.allocated, "")
        return by_container(self.read_uses(text, pod.annotations), pod) if text.strip() else None

    def read_uses(self, text: str, annotations: Mapping[str, str]) -> PodUses:
        """The slots of a pod's record."""
        return codec.decode_pod(text)


def plain_cards(node: Node, count: int, resource: str, memory: int, type_: str) -> list[Device]:
    """Cards without an identity of their own, as many as the node offers; each may have as many parts as percents."""
    if count > MOST_DEVICES:
        field = f"status.allocatable[{resource}]"
        raise DecodeError(f"{count} cards on one node", field, f"at most {MOST_DEVICES} cards")
    return [
        Device(f"{node.name}/{index}", index, WHOLE_CARD, memory, WHOLE_CARD, type_, mode=PLAIN_MODE)
        for index in range(count)
    ]


class CapacityVendor(PlainVendor):
    """Cards that register nothing: their number and memory follow from what the node offers."""

    stem: ClassVar[str]
    """What the cards' ids are made of, after the node's name."""
    first: ClassVar[int]
    """The index of a node's first card."""

    def devices(self, node: Node) -> list[Device]:
        return codec.capacity_devices(
            node,
            cores=self.cores_resource,
            memory=self.memory_resource,
            memory_unit=self.memory_unit,
            stem=self.stem,
            first=self.first,
            type_=self.name,
        )
