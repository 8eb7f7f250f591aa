"""AWS Neuron devices, which register nothing and are allocated whole or by the core.

Compute is a set of cores, written as a number in which each bit stands for one core.
"""

from collections.abc import Mapping, Sequence

from tonnage.devices import codec
from tonnage.devices._plain import PlainVendor
from tonnage.devices._sets import by_index
from tonnage.devices.base import (
    WHOLE_CARD,
    Device,
    DeviceRequest,
    Handover,
    PodUses,
    RequestError,
    all_of,
    limit,
    whole_number,
)
from tonnage.devices.entry import Name, Section, SectionKeys, VendorEntry
from tonnage.model.node import Node
from tonnage.model.pod import Container

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
NODE_TYPE = "AWSNodeType"
"""The custom fact that is the instance type of a device's node."""
USUAL_CORES = 2
"""Cores of a device whose node does not state them."""
MOST_CORES = 16
BLOCKS = (4, 8, 16)
"""The sizes of blocks of linked neighbours; on inference nodes all neighbours are linked."""


class Neuron(PlainVendor):
    """Neuron devices of Inferentia and Trainium nodes."""

    has_set_rules = True
    plugin_annotations = (
        "AWS_NEURON_IDS",
        "NEURON_ALLOC_TIME",
        "NEURON_ALLOCATED",
        "NEURON_RESOURCE_TYPE",
        "aws.amazon.com/predicate-node",
    )

    def __init__(
        self, *, count_resource: str = "aws.amazon.com/neuron", cores_resource: str = "aws.amazon.com/neuroncore"
    ) -> None:
        super().__init__(
            name="AWSNeuron",
            count_resource=count_resource,
            memory_resource="",
            cores_resource=cores_resource,
            record="hami.io/aws-neuron-devices",
            use_uuids="aws.amazon.com/use-neuron-uuid",
            refuse_uuids="aws.amazon.com/nouse-neuron-uuid",
            is_consumed=False,
        )

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        count = whole_number(container, self.count_resource)
        cores = whole_number(container, self.cores_resource) if count is None else None
        if cores == 1:
            return DeviceRequest(self.name, 1, memory=0, percentage=0, cores=1)
        if cores is not None:
            if cores % USUAL_CORES:
                raise RequestError(
                    f"container {container.name!r}: {self.cores_resource}: {cores} is neither 1 nor a multiple of "
                    f"{USUAL_CORES}"
                )
            count = cores // USUAL_CORES
        if not count:
            return None
        return DeviceRequest(self.name, count, memory=0, percentage=0, cores=WHOLE_CARD, scales=True)

    def devices(self, node: Node) -> list[Device]:
        number = codec.counted_cards(node, self.count_resource)
        if not number:
            return []
        each = min(codec.capacity(node, self.cores_resource) // number, MOST_CORES) if self.cores_resource else 0
        each = each or USUAL_CORES
        facts = ((NODE_TYPE, node.labels.get(INSTANCE_TYPE, "")),)
        return [
            Device(f"{node.name}-{self.name}-{index}", index, each, 0, 2**each - 1, self.name, custom=facts)
            for index in range(number)
        ]

    def compute_given(self, asked: int, free: int) -> int:
        """A request for one core gets the first free core."""
        return free & -free if asked == 1 else asked

    def most_cores(self, container: Container, request: DeviceRequest, device: Device) -> int:
        """All cores, or any single one."""
        return all_of(device)[1] if request.scales else (device.cores + 1) // 2

    def is_particular(self, request: DeviceRequest) -> bool:
        return request.count > 1

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        count, positions = request.count, by_index(candidates)
        if count == 1:
            return None
        kind = str(dict(candidates[0].custom).get(NODE_TYPE, ""))
        step = 1 if kind.lower().startswith("inf") else count
        if step > 1 and count not in BLOCKS:
            return []
        for first in range(0, max(positions) + 1, step):
            block = range(first, first + count)
            if all(index in positions for index in block):
                return [positions[index] for index in block]
        return []

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        numbers: list[int] = []
        by_core = False
        for container, given in zip(handover.containers, uses, strict=True):
            devices = [(handover.devices[use.uuid], use.cores) for use in given]
            if limit(container, self.count_resource) is None:
                by_core |= bool(given)
                numbers += [
                    device.count * device.index + core
                    for device, cores in devices
                    for core in range(device.count)
                    if cores >> core & 1
                ]
            else:
                numbers += [device.index for device, _ in devices]
        told = {
            "AWS_NEURON_IDS": ",".join(str(number) for number in numbers),
            "NEURON_ALLOC_TIME": handover.nanoseconds,
            "NEURON_ALLOCATED": "false",
            "aws.amazon.com/predicate-node": handover.node,
        }
        return told | {"NEURON_RESOURCE_TYPE": self.cores_resource} if by_core else told


class _Keys(SectionKeys, frozen=True, rename="camel"):
    resource_count_name: Name = ""
    resource_core_name: Name = ""


def _configured(section: _Keys) -> list[Neuron]:
    return [Neuron(count_resource=section.resource_count_name, cores_resource=section.resource_core_name)]


ENTRY = VendorEntry(sections=(Section("awsneuron", _Keys, _configured),), usual=lambda flags: [Neuron()])
