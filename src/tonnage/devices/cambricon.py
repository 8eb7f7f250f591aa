"""Cambricon MLUs, which register nothing: their number and memory follow from the node's capacity."""

from tonnage.devices._plain import CapacityVendor
from tonnage.devices.base import WHOLE_CARD, Handover, PodUses
from tonnage.devices.entry import CardKeys, Flags, Section, VendorEntry, from_flags

MEMORY_UNIT = 256
"""MiB in one unit of memory."""


class Cambricon(CapacityVendor):
    """MLUs shared through Cambricon's own dynamic sharing."""

    stem = "cambricon-mlu"
    lock_annotation = "cambricon.com/dsmlu.lock"
    plugin_annotations = ("CAMBRICON_DSMLU_ASSIGNED", "CAMBRICON_DSMLU_PROFILE")

    def __init__(
        self,
        *,
        count_resource: str = "cambricon.com/vmlu",
        memory_resource: str = "cambricon.com/mlu.smlu.vmemory",
        cores_resource: str = "cambricon.com/mlu.smlu.vcore",
    ) -> None:
        super().__init__(
            name="MLU",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/cambricon-mlu-devices",
            use_uuids="cambricon.com/use-gpuuuid",
            refuse_uuids="cambricon.com/nouse-gpuuuid",
            memory_unit=MEMORY_UNIT,
            default_cores=WHOLE_CARD,
        )

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        first = next(use for container in uses for use in container)
        index = handover.devices[first.uuid].index
        return {
            "CAMBRICON_DSMLU_ASSIGNED": "false",
            "CAMBRICON_DSMLU_PROFILE": f"{index}_{first.cores}_{first.memory // MEMORY_UNIT}",
        }


def _usual(flags: Flags) -> list[Cambricon]:
    names = from_flags(
        flags,
        count_resource="cambricon_mlu_name",
        memory_resource="cambricon_mlu_memory",
        cores_resource="cambricon_mlu_cores",
    )
    return [Cambricon(**names)]


ENTRY = VendorEntry(
    sections=(Section("cambricon", CardKeys, lambda section: [Cambricon(**section.resources)]),),
    usual=_usual,
)
