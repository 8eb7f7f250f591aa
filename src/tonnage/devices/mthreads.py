"""Moore Threads GPUs, which register nothing: their number and memory follow from the node's capacity.

Compute counts in sixteenths of a card. A container requests memory and compute for all its cards together.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from tonnage.devices._plain import CapacityVendor
from tonnage.devices.base import (
    LARGEST_AMOUNT,
    WHOLE_CARD,
    AdmissionChange,
    AdmissionError,
    Device,
    DeviceRequest,
    Handover,
    PodUses,
    all_of,
    limit,
    whole_number,
)
from tonnage.devices.entry import CardKeys, Flags, Section, VendorEntry, from_flags
from tonnage.model.pod import Container

MEMORY_UNIT = 512
"""MiB in one unit of memory."""
CORES_OF_CARD = 16
MEMORY_OF_CARDS = (96,)
"""The default sizes of whole cards, in units of memory."""
REQUEST_NUMBER = "mthreads.com/request-gpu-num"


class Mthreads(CapacityVendor):
    """GPUs shared through Moore Threads' sGPU."""

    stem = "mthreads"
    cores_of_card = CORES_OF_CARD
    one_set_per_pod = True
    plugin_annotations = ("mthreads.com/gpu-index", "mthreads.com/predicate-time", "mthreads.com/predicate-node")

    def __init__(
        self,
        *,
        count_resource: str = "mthreads.com/vgpu",
        memory_resource: str = "mthreads.com/sgpu-memory",
        cores_resource: str = "mthreads.com/sgpu-core",
        memory_of_cards: Sequence[int] = MEMORY_OF_CARDS,
    ) -> None:
        """`memory_of_cards` lists the sizes of cards in units of memory; a request for whole cards uses the first."""
        super().__init__(
            name="Mthreads",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/mthreads-vgpu-devices",
            use_uuids="mthreads.ai/use-gpuuuid",
            refuse_uuids="mthreads.ai/nouse-gpuuuid",
            memory_unit=MEMORY_UNIT,
            is_consumed=False,
        )
        self.memory_of_cards = tuple(memory_of_cards) or MEMORY_OF_CARDS

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        count = whole_number(container, self.count_resource)
        if not count:
            return None
        memory = (self.memory(container) or 0) // count
        cores = whole_number(container, self.cores_resource)
        if cores is None and not memory:
            cores = count * CORES_OF_CARD
        return DeviceRequest(self.name, count, memory, 0 if memory else WHOLE_CARD, (cores or 0) // count)

    def most_cores(self, container: Container, request: DeviceRequest, device: Device) -> int:
        stated = whole_number(container, self.cores_resource)
        return all_of(device)[1] if stated is None else -(-stated // request.count)

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        units = limit(container, self.memory_resource)
        if request.count == 1 and units is not None:
            self._check_part(container, request.memory // MEMORY_UNIT)
            return ()
        whole = {self.cores_resource: CORES_OF_CARD, self.memory_resource: self.memory_of_cards[0]}
        changes = [AdmissionChange("limits", name, str(request.count * each)) for name, each in whole.items() if name]
        requested = container.resources.requests or {}
        # A request next to the limit must stay equal to it.
        changes += [
            AdmissionChange("requests", change.key, change.value) for change in changes if change.key in requested
        ]
        if request.count > 1:
            changes.append(AdmissionChange("annotations", REQUEST_NUMBER, str(request.count)))
        return tuple(changes)

    def _check_part(self, container: Container, units: int) -> None:
        """Refuse sizes other than powers of two and whole cards, the only ones that the driver supports."""
        parts = {2**power for power in range(1, max(self.memory_of_cards).bit_length())} | {*self.memory_of_cards}
        if units not in parts:
            shown = ", ".join(str(part) for part in sorted(parts))
            raise AdmissionError(f"container {container.name!r}: {self.memory_resource}: {units} is none of {shown}")

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        given = next(container for container in uses if container)
        return {
            "mthreads.com/gpu-index": ",".join(str(handover.devices[use.uuid].index) for use in given),
            "mthreads.com/predicate-time": handover.nanoseconds,
            "mthreads.com/predicate-node": handover.node,
        }


class _Keys(CardKeys, frozen=True, rename="camel"):
    memory_per_card: list[Annotated[int, msgspec.Meta(ge=1, le=LARGEST_AMOUNT // MEMORY_UNIT)]] = msgspec.field(
        default_factory=list
    )


def _configured(section: _Keys) -> list[Mthreads]:
    return [Mthreads(**section.resources, memory_of_cards=section.memory_per_card)]


def _usual(flags: Flags) -> list[Mthreads]:
    names = from_flags(
        flags, count_resource="mthreads_name", memory_resource="mthreads_memory", cores_resource="mthreads_cores"
    )
    return [Mthreads(**names)]


ENTRY = VendorEntry(sections=(Section("mthreads", _Keys, _configured),), usual=_usual)
