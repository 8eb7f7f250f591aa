"""Base classes of vendors: plain vendors, which differ in names and units only, and their variants.

A plain vendor counts cards by one resource, qualifies them by memory and cores, and records the devices of a pod in two
pod annotations of the common form. Other vendors override single steps.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from msgspec.structs import replace

from tonnage.devices import codec
from tonnage.devices.base import (
    LARGEST_AMOUNT,
    MIG_MODE,
    MOST_DEVICES,
    NOT_MATCHED,
    PLAIN_MODE,
    WHOLE_CARD,
    Admission,
    AdmissionChange,
    AdmissionError,
    DecodeError,
    Device,
    DeviceRequest,
    Handover,
    PodUses,
    RequestError,
    Vendor,
    all_of,
    uuid_lists,
    whole_number,
)
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod


@contextmanager
def refusing_nonsense() -> Iterator[None]:
    """Turn a RequestError into an AdmissionError with the same message."""
    try:
        yield
    except RequestError as error:
        raise AdmissionError(str(error)) from error


def by_container(uses: PodUses, pod: Pod) -> PodUses:
    """A pod's record with a slot for every container; HAMi before 2.9 left out the init containers."""
    init = len(pod.spec.initContainers or ())
    return ((),) * init + uses if init and len(uses) == len(pod.spec.containers) else uses


def named(*resources: str) -> tuple[str, ...]:
    """The resources that have a name; the others cannot be requested."""
    return tuple(name for name in resources if name)


class PlainVendor(Vendor):
    """Cards that are counted by one resource, with memory and cores on each."""

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
        is_consumed: bool = True,
    ) -> None:
        """`is_consumed` says whether the device plugin reads a copy of the record and then empties it."""
        self.name = name
        self.count_resource = count_resource
        self.memory_resource = memory_resource
        self.cores_resource = cores_resource
        self.side_resources = named(memory_resource, cores_resource)
        self.to_allocate = f"{record}-to-allocate" if is_consumed else ""
        self.allocated = f"{record}-allocated"
        self.use_uuids = use_uuids
        self.refuse_uuids = refuse_uuids
        self.policy_annotations = (use_uuids, refuse_uuids)
        self.register_annotations = (register,) if register else ()
        self.handshake_annotation = handshake
        self.memory_unit = memory_unit
        self.default_cores = default_cores

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
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
        """MiB that the container requests on each card; None if it requests none."""
        unit = "MiB" if self.memory_unit == 1 else f"units of {self.memory_unit} MiB"
        units = whole_number(container, self.memory_resource, unit, (0, LARGEST_AMOUNT // self.memory_unit))
        return None if units is None else units * self.memory_unit

    def most(self, container: Container, request: DeviceRequest, device: Device) -> tuple[int, int]:
        memory, cores = all_of(device)
        # Any instance with enough memory may have been the smallest free one.
        if device.mode == MIG_MODE or (device.mode == PLAIN_MODE and not request.shares):
            return memory, cores
        if request.shares or self.states_memory(container):
            memory = min(memory, request.most_memory_on(device.memory or LARGEST_AMOUNT))
        return memory, min(cores, self.most_cores(container, request, device))

    def states_memory(self, container: Container) -> bool:
        """Whether the container says itself how much memory it takes of each card."""
        return bool(self.memory_resource) and bool(self.memory(container))

    def most_cores(self, container: Container, request: DeviceRequest, device: Device) -> int:
        """The most compute of a card that the container can have been given."""
        stated = whole_number(container, self.cores_resource) if self.cores_resource else None
        if stated is None or request.shares:
            return all_of(device)[1]
        return max(1, -(-device.cores * stated // WHOLE_CARD)) if request.scales else min(stated, WHOLE_CARD)

    def devices(self, node: Node) -> list[Device]:
        text = node.annotations.get(self.register_annotations[0])
        return [] if text is None else codec.decode_node(text)

    def uuid_lists(self, annotations: Mapping[str, str]) -> tuple[frozenset[str] | None, frozenset[str]]:
        return uuid_lists(annotations, self.use_uuids, self.refuse_uuids)

    def admit(self, container: Container, annotations: Mapping[str, str] = {}) -> Admission:
        with refusing_nonsense():
            request = self.request(container, annotations)
        return NOT_MATCHED if request is None else Admission(True, self.changes(container, request))

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        """The changes that admission makes to a container that requests this vendor's cards."""
        return ()

    def encode_pod(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        if not any(uses):
            return {}
        text = codec.encode_pod(uses, self.name, self.written_types(handover))
        consumed = {self.to_allocate: text} if self.to_allocate else {}
        return {**consumed, self.allocated: text, **self.extras(uses, handover)}

    def written_types(self, handover: Handover) -> dict[str, str]:
        """The types, by UUID, that a pod's record holds in place of the vendor's name."""
        return {}

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        """Annotations that only this vendor's device plugin reads."""
        return {}

    def decode_pod(self, pod: Pod) -> PodUses | None:
        text = pod.annotations.get(self.allocated, "")
        return by_container(self.read_uses(text, pod.annotations), pod) if text.strip() else None

    def read_uses(self, text: str, annotations: Mapping[str, str]) -> PodUses:
        """The devices in a pod's record, per slot."""
        return codec.decode_pod(text)


def plain_cards(node: Node, count: int, resource: str, memory: int, type_: str, *, memory_known: bool) -> list[Device]:
    """Cards that no plugin registers, as many as the node offers; 100 containers may share each."""
    if count > MOST_DEVICES:
        field = f"status.allocatable[{resource}]"
        raise DecodeError(f"{count} cards on one node", field, f"at most {MOST_DEVICES} cards")
    return [
        Device(
            f"{node.name}/{index}",
            index,
            WHOLE_CARD,
            memory,
            WHOLE_CARD,
            type_,
            mode=PLAIN_MODE,
            memory_known=memory_known,
        )
        for index in range(count)
    ]


class CapacityVendor(PlainVendor):
    """Cards that register nothing: their number and memory follow from the node's capacity."""

    stem: ClassVar[str]
    """The part of the cards' ids between the node's name and the index."""
    first: ClassVar[int] = 0
    """The index of a node's first card."""
    cores_of_card: ClassVar[int] = WHOLE_CARD

    def devices(self, node: Node) -> list[Device]:
        return codec.capacity_devices(
            node,
            cores=self.cores_resource,
            memory=self.memory_resource,
            memory_unit=self.memory_unit,
            stem=self.stem,
            first=self.first,
            type_=self.name,
            cores_of_card=self.cores_of_card,
        )


class WholeVendor(PlainVendor):
    """Cards that register nothing and are allocated whole: as many as the node's capacity counts, all alike."""

    stem: ClassVar[str]
    """The part of the cards' ids between the node's name and the index."""
    slots: ClassVar[int] = 1
    card_memory: ClassVar[int]
    """MiB that every card is assumed to have."""

    def __init__(
        self,
        *,
        name: str,
        count_resource: str,
        record: str,
        use_uuids: str,
        refuse_uuids: str,
        is_consumed: bool = True,
    ) -> None:
        super().__init__(
            name=name,
            count_resource=count_resource,
            memory_resource="",
            cores_resource="",
            record=record,
            use_uuids=use_uuids,
            refuse_uuids=refuse_uuids,
            default_cores=WHOLE_CARD,
            is_consumed=is_consumed,
        )

    def devices(self, node: Node) -> list[Device]:
        return [
            Device(f"{node.name}-{self.stem}-{index}", index, self.slots, self.card_memory, WHOLE_CARD, self.name)
            for index in range(codec.counted_cards(node, self.count_resource))
        ]


class SlotVendor(PlainVendor):
    """Registered cards that are allocated by slots, without amounts of memory and compute."""

    def __init__(self, *, name: str, count_resource: str, word: str, policy: str) -> None:
        """`word` is part of the names of node annotations; `policy` is the prefix of pod annotations."""
        super().__init__(
            name=name,
            count_resource=count_resource,
            memory_resource="",
            cores_resource="",
            record=f"hami.io/{name}-devices",
            register=f"hami.io/node-{word}-register",
            handshake=f"hami.io/node-handshake-{word}",
            use_uuids=f"{policy}/use-gpuuuid",
            refuse_uuids=f"{policy}/nouse-gpuuuid",
        )

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        count = whole_number(container, self.count_resource)
        return DeviceRequest(self.name, count, memory=0, percentage=0, cores=0) if count else None

    def devices(self, node: Node) -> list[Device]:
        return [replace(device, cores=WHOLE_CARD) for device in super().devices(node)]
